"""Run by http-clients.test.ts: makes the same calls with one library and prints what each gave."""

import asyncio
import atexit
import json
import os
import re
import sys
import urllib.parse

BASE, KEY = os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"]


def with_requests():
    import requests

    session = requests.Session()

    def send(method, url, headers, body):
        answer = session.request(method, url, headers=headers, data=body)
        return answer.status_code, answer.headers, answer.text

    return send


def with_httpx():
    import httpx

    client = httpx.Client()

    def send(method, url, headers, body):
        answer = client.request(method, url, headers=headers, content=body)
        return answer.status_code, answer.headers, answer.text

    return send


def with_aiohttp():
    import aiohttp

    loop = asyncio.new_event_loop()

    async def opened():
        return aiohttp.ClientSession()

    session = loop.run_until_complete(opened())
    atexit.register(lambda: loop.run_until_complete(session.close()))

    async def once(method, url, headers, body):
        async with session.request(method, url, headers=headers, data=body) as answer:
            return answer.status, answer.headers, await answer.text()

    return lambda *request: loop.run_until_complete(once(*request))


send = {"requests": with_requests, "httpx": with_httpx, "aiohttp": with_aiohttp}[sys.argv[1]]()


def ask(path, headers={}, method="GET"):
    return send(method, urllib.parse.urljoin(BASE, path), {"x-api-key": KEY, **headers}, None)


def post(path, body, headers={}):
    headers = {"x-api-key": KEY, "content-type": "application/json", **headers}
    return send("POST", BASE + path, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


hotels, path = [], "/hotels?limit=100"
while path:
    _, headers, text = ask(path)
    hotels += json.loads(text)
    link = re.search(r'<([^>]*)>; rel="next"', headers.get("link", ""))
    path = link and urllib.parse.urljoin(path, link[1])

path = "/hotels/" + urllib.parse.quote(hotels[0]["id"], safe="")
single = ask(path)
head = ask(path, method="HEAD")
unchanged = ask(path, {"if-none-match": single[1]["etag"]})
missing = ask("/hotels/missing")
unauthorized = ask(path, {"x-api-key": "wrong"})

channel_ids = [hotel["channel_id"] for hotel in hotels if hotel["channel_id"] is not None][:1000]
batch = post("/hotels/channel/batch", {"channel_ids": channel_ids})
found = json.loads(batch[2])

print(
    json.dumps(
        {
            "listed": len(hotels),
            "single": [single[0], json.loads(single[2])["id"]],
            "head": [head[0], int(head[1]["content-length"]) > 0, len(head[2])],
            "unchanged": [unchanged[0], len(unchanged[2])],
            "missing": [missing[0], missing[1]["x-error-code"], json.loads(missing[2])["error"]],
            "unauthorized": [unauthorized[0], unauthorized[1]["x-error-code"], unauthorized[1]["www-authenticate"]],
            "batch": [batch[0], len(found), [hotel["channel_id"] for hotel in found] == channel_ids],
        }
    )
)
