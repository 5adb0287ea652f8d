"""Run by clients.test.ts beside the client: updates one copy for each step, and prints the size of it and the errors."""

import json
import os
import sys

from client import HotelApi

given = json.loads(sys.argv[1])
attempts = given.get("maxAttempts", 5)
api = HotelApi(os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"], max_attempts=attempts, timeout_s=120)
copy = {"hotels": {}, "next": None, **given["copy"]}
results = []
for step in given["steps"]:
    copy["hotels"].pop(step.get("drop"), None)
    copy["next"] = step.get("next", copy["next"])
    try:
        api.mirror(copy, step.get("waitS", 0))
        results.append(len(copy["hotels"]))
    except Exception as error:
        results.append({"error": str(error), "size": len(copy["hotels"])})
print(json.dumps(results))
