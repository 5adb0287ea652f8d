"""Run beside the client by its tests: makes the calls in the file that its argument names, and prints each result."""

import json
import os
import re
import sys

from client import HotelApi, HotelApiError

with open(sys.argv[1]) as file:
    given = json.load(file)
attempts = given.get("maxAttempts", 5)
api = HotelApi(os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"], max_attempts=attempts, timeout_s=120)
copy = {"hotels": {}, "next": None, **given.get("copy", {})}


def value_of(name, *arguments):
    if name == "mirror":
        [step] = arguments
        copy["hotels"].pop(step.get("drop"), None)
        copy["next"] = step.get("next", copy["next"])
        api.mirror(copy, step.get("waitS", 0))
        return len(copy["hotels"])
    found = getattr(api, re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name))(*arguments)
    if name == "hotels":
        return sum(1 for _ in found)
    return [hotel["id"] for hotel in found] if name.startswith("hotels") else found and found["id"]


results = []
for call in given["calls"]:
    try:
        results.append({"value": value_of(*call)})
    except Exception as error:
        result = {"message": str(error)}
        if isinstance(error, HotelApiError):
            result |= {"status": error.status, "code": error.code, "id": error.id}
            result |= {} if error.retry_after_s is None else {"retryAfterS": error.retry_after_s}
        results.append(result | ({"size": len(copy["hotels"])} if call[0] == "mirror" else {}))
print(json.dumps(results))
