"""A client of the hotel data API: Python 3.9 or newer, nothing but the standard library."""

import gzip
import http.client
import json
import os
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request

MAX_BATCH = 1000
MAX_CACHED = 10_000


class HotelApiError(Exception):
    """What the service refuses; request_id is what its operator will want to know."""

    def __init__(self, status, sentence, request_id):
        super().__init__(f"{status} {sentence}")
        self.status, self.request_id = status, request_id


class HotelApi:
    def __init__(self, url, key, max_attempts=6, timeout_s=30):
        self._url, self._key = url.rstrip("/"), key
        self._max_attempts, self._timeout_s = max_attempts, timeout_s
        self._cache = {}  # path -> (etag, body, link): sent again only when it has changed

    def hotel(self, hotel_id):
        """One hotel as a dict; None: there is none."""
        return self._single("/hotels/" + urllib.parse.quote(hotel_id, safe=""))

    def hotel_by_channel_id(self, channel_id):
        return self._single("/hotels/channel/" + urllib.parse.quote(channel_id, safe=""))

    def hotel_by_registry_id(self, registry_id):
        return self._single(f"/hotels/registry/{registry_id}")

    def hotels(self):
        """All hotels, page by page, in the order of their ids."""
        path = "/hotels?limit=100"
        while path:
            page, link = self._get(path)
            yield from page
            following = re.search(r'<[^>]*(/hotels[^>]*)>; rel="next"', link)
            path = following and following[1]

    def hotels_by_channel_ids(self, ids):
        """However many hotels, in the order asked; ids that no hotel carries are left out."""
        return self._batches(ids, "/hotels/channel/batch", "channel_ids")

    def hotels_by_registry_ids(self, ids):
        return self._batches(ids, "/hotels/registry/batch", "registry_ids")

    def _batches(self, ids, path, field):
        unique = list(dict.fromkeys(ids))
        for start in range(0, len(unique), MAX_BATCH):
            body = json.dumps({field: unique[start : start + MAX_BATCH]}).encode()
            yield from json.loads(self._ask(path, body)[1])

    def _single(self, path):
        try:
            return self._get(path)[0]
        except HotelApiError as error:
            if error.status == 404:
                return None
            raise

    def _get(self, path):
        etag, body, link = self._cache.get(path, (None, None, None))
        headers, text = self._ask(path, None, etag)
        if text is not None:
            body, link = json.loads(text), headers.get("link", "")
            self._cache.pop(path, None)
            self._cache[path] = (headers["etag"], body, link)
            if len(self._cache) > MAX_CACHED:
                del self._cache[next(iter(self._cache))]
        return body, link

    def _ask(self, path, body=None, etag=None):
        """The headers and the body; None instead of the body: it is the one of this ETag.

        Asks again, for nothing is ever changed by asking: after 429 and 503 when the service says, else a little later.
        """
        request = urllib.request.Request(self._url + path, data=body)
        request.add_header("x-api-key", self._key)
        request.add_header("accept-encoding", "gzip")
        if body:
            request.add_header("content-type", "application/json")
        if etag:
            request.add_header("if-none-match", etag)
        for attempt in range(1, self._max_attempts + 1):
            is_last = attempt == self._max_attempts
            wait_s = 0.05 * 2**attempt * (1 + random.random())
            try:
                with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                    return answer.headers, _unpack(answer)
            except urllib.error.HTTPError as answer:
                if answer.code == 304:
                    return answer.headers, None
                if is_last or answer.code not in (429, 500, 503):
                    sentence = json.loads(_unpack(answer))["error"]
                    raise HotelApiError(answer.code, sentence, answer.headers["x-request-id"]) from None
                wait_s = float(answer.headers.get("retry-after", wait_s))
            except (OSError, http.client.HTTPException):
                if is_last:
                    raise
            time.sleep(wait_s)


def _unpack(answer):
    data = answer.read()
    return gzip.decompress(data) if answer.headers.get("content-encoding") == "gzip" else data


if __name__ == "__main__":
    api = HotelApi(os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"])

    # one hotel; asked for again, it is sent only when it has changed
    api.hotel("htl_sliji9ej")
    hotel = api.hotel("htl_sliji9ej")
    print(hotel["name"], hotel["city"], hotel["certified"])

    # as many as you like: split into batches of 1000
    ids = [f"CH{100_001 + i}" for i in range(2500)]
    found = list(api.hotels_by_channel_ids(ids))
    print(f"{len(found)} of {len(ids)} found")

    # all there are
    print(f"{sum(1 for _ in api.hotels())} hotels")
