"""Run by sqlite-copy.test.ts beside the client: updates the copy once, and prints its rows and the error."""

import json
import os
import sqlite3
import sys

from client import HotelApi
from sqlite_copy import update_copy

db = sqlite3.connect(sys.argv[1])
error = None
try:
    update_copy(HotelApi(os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"]), db)
except Exception as raised:
    error = str(raised)
db.row_factory = sqlite3.Row
rows = db.execute("select id, channel_id, registry_id, hotel from hotels order by id").fetchall()
print(json.dumps({"error": error, "rows": [dict(row) for row in rows]}))
