"""Run by client-gateways.test.ts beside the client: makes the calls in the file that its argument names, and prints what each gave."""

import json
import os
import re
import sys

from client import HotelApi, HotelApiError

with open(sys.argv[1]) as file:
    given = json.load(file)
options = {"max_attempts": given.get("maxAttempts")}
api = HotelApi(
    os.environ["HOTEL_API_URL"],
    os.environ["HOTEL_API_KEY"],
    **{name: value for name, value in options.items() if value},
)

results = []
for name, *arguments in given["calls"]:
    method = getattr(api, re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name))
    try:
        value = method(*arguments)
        if name == "hotels":
            results.append({"value": sum(1 for _ in value)})
        elif name.startswith("hotels"):
            results.append({"value": [hotel["id"] for hotel in value]})
        else:
            results.append({"value": value and value["id"]})
    except HotelApiError as error:
        result = {"message": str(error), "status": error.status, "code": error.code, "id": error.id}
        results.append({**result, **({} if error.retry_after_s is None else {"retryAfterS": error.retry_after_s})})
    except Exception as error:
        results.append({"message": str(error)})
print(json.dumps(results))
