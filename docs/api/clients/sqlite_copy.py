"""A copy of all hotels in SQLite, whose channel and registry ids are unique: Python 3.9 or newer.

Another database needs the same steps.
"""

import json
import os
import sqlite3
import sys

from client import MAX_WAIT_S, HotelApi, HotelApiError

SCHEMA = """
  create table if not exists hotels (
    id text primary key,
    channel_id text unique,
    registry_id integer unique,
    hotel text not null -- the whole hotel as JSON; add the columns that you query
  );
  -- the changes since the copy was last consistent
  create table if not exists staged (id text primary key, hotel text);
  -- the token with which the copy goes on, and whether the staged hotels are all hotels
  create table if not exists progress (next text, is_whole integer not null);
  insert into progress select null, 1 where not exists (select * from progress);
"""

# deletes before it inserts, so an id may go from one changed hotel to another
APPLY = (
    "delete from hotels where (select is_whole from progress) or id in (select id from staged)",
    """insert into hotels
       select id, json_extract(hotel, '$.channel_id'), json_extract(hotel, '$.registry_id'), hotel
       from staged where hotel is not null""",
    "delete from staged",
    "update progress set is_whole = 0",
)


def update_copy(api, db, wait_s=0):
    """Begins a copy, or brings it up to date; waits up to wait_s where nothing has changed yet.

    Pages are staged until more is false, because before that two hotels may hold the same channel or registry id. They are
    then applied in one transaction, so readers always see a consistent copy: the old one while hotels are copied anew after
    410, too. After an error, call it again: it goes on where it was.
    """
    db.executescript("pragma busy_timeout = 10000; pragma journal_mode = wal;" + SCHEMA)
    more = True
    while more:
        (token,) = db.execute("select next from progress").fetchone()
        try:
            page = api.changes(token, wait_s)
        except HotelApiError as error:
            if error.code != "token_expired" or token is None:
                raise
            # `with db` is one transaction
            with db:
                db.execute("delete from staged")
                db.execute("update progress set next = null, is_whole = 1")
            continue
        more = page["more"]
        rows = ((change["id"], change["hotel"] and json.dumps(change["hotel"])) for change in page["changes"])
        with db:
            db.executemany("insert or replace into staged values (?, ?)", rows)
            for statement in () if more else APPLY:
                db.execute(statement)
            db.execute("update progress set next = ?", (page["next"],))


if __name__ == "__main__":
    hotel_api = HotelApi(os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"], timeout_s=2 * MAX_WAIT_S)
    connection = sqlite3.connect(sys.argv[1])
    while True:
        update_copy(hotel_api, connection, MAX_WAIT_S)
