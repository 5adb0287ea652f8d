"""A client of the hotel data API: Python 3.9 or newer, nothing but the standard library."""

import email.utils
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
import zlib

MAX_BATCH = 1000
MAX_WAIT_S = 30
# longest wait before the second attempt; doubled before each further one
BACKOFF_S = 0.5
# what a later attempt may answer otherwise; 502 and 504 come from gateways
RETRIED = (408, 429, 500, 502, 503, 504)


class HotelApiError(Exception):
    """A response that is no success.

    code names the error, as the guide lists them; None: a gateway or the HTTP library of the service responded.
    id is the id of a batch that the error is about. The operator of the API finds a 5xx or slow response by request_id.
    """

    def __init__(self, message, status, code, id, request_id, retry_after_s):
        super().__init__(f"{status} {message}")
        self.status, self.code, self.id = status, code, id
        self.request_id, self.retry_after_s = request_id, retry_after_s


class HotelApi:
    """timeout_s: for connecting, and for each wait for bytes. max_wait_s: a longer Retry-After is raised and not waited for."""

    def __init__(self, url, key, max_attempts=5, timeout_s=30, max_wait_s=60):
        self._url, self._key = url.rstrip("/"), key
        self._max_attempts, self._timeout_s, self._max_wait_s = max_attempts, timeout_s, max_wait_s
        self._opener = urllib.request.build_opener(_NoRedirects)

    def hotel(self, hotel_id):
        """One hotel as a dict; None: there is none."""
        return self._single("/hotels/" + urllib.parse.quote(hotel_id, safe=""))

    def hotel_by_channel_id(self, channel_id):
        return self._single("/hotels/channel/" + urllib.parse.quote(channel_id, safe=""))

    def hotel_by_registry_id(self, registry_id):
        return self._single("/hotels/registry/" + urllib.parse.quote(str(registry_id), safe=""))

    def hotels(self):
        """All hotels, page by page, in the order of their ids. Changes meanwhile may hide or repeat some: see mirror."""
        path = "/hotels?limit=100"
        while path:
            page, link = self._ask(path, _is_list)
            yield from page
            # the query and not the address: a gateway may have given the service another one
            following = re.search(r'<[^>]*(\?[^>]*)>; rel="next"', link)
            path = following and "/hotels" + following[1]

    def mirror(self, copy=None, wait_s=0):
        """Copies all hotels, or brings a copy up to date: {"hotels": {id: hotel}, "next": token}, to be stored as it is.

        Waits up to wait_s, at most half of the timeout, where nothing has changed yet. After an error, call it with the same
        copy again: it goes on where it was. A copy without a token, or with one that is too old, begins again, in another
        dict that replaces the old one at the end.
        """
        if copy is None:
            copy = {"hotels": {}, "next": None}
        token, more = copy["next"], True
        hotels = copy["hotels"] if token else {}
        while more:
            try:
                page = self.changes(token, wait_s)
            except HotelApiError as error:
                if error.code != "token_expired" or not token:
                    raise
                hotels, token = {}, None
                continue
            for change in page["changes"]:
                if change["hotel"]:
                    hotels[change["id"]] = change["hotel"]
                else:
                    hotels.pop(change["id"], None)
            token, more = page["next"], page["more"]
            if not more or hotels is copy["hotels"] or not copy["hotels"]:
                copy.update(hotels=hotels, next=token)
        return copy

    def changes(self, after=None, wait_s=0):
        """One page of changes behind a token, for a copy that is kept elsewhere; without a token the first page of all hotels.

        {"changes": [{"id", "hotel"}], "next": token, "more": bool}. A copy to which the changes are applied is right when
        more is false, and not before.
        """
        wait = int(min(wait_s, MAX_WAIT_S, self._timeout_s / 2))
        token = "&after=" + urllib.parse.quote(after) if after else ""
        return self._ask(f"/changes?limit=1000&wait={wait}{token}", _is_page)[0]

    def hotels_by_ids(self, ids):
        """However many hotels, in the order of the ids; ids without a hotel are left out."""
        return self._batches(ids, "/hotels/batch", "ids")

    def hotels_by_channel_ids(self, ids):
        return self._batches(ids, "/hotels/channel/batch", "channel_ids")

    def hotels_by_registry_ids(self, ids):
        return self._batches(map(str, ids), "/hotels/registry/batch", "registry_ids")

    def _batches(self, ids, path, field):
        unique = list(dict.fromkeys(ids))
        for start in range(0, len(unique), MAX_BATCH):
            batch = unique[start : start + MAX_BATCH]
            # unescaped, so that long ids fit in 1 MiB; half a surrogate pair, which UTF-8 cannot hold, becomes its escape
            body = json.dumps({field: batch}, ensure_ascii=False).encode(errors="backslashreplace")
            hotels, _ = self._ask(path, _is_list, body=body, ids=batch)
            yield from hotels

    def _single(self, path):
        try:
            return self._ask(path, _is_hotel)[0]
        except HotelApiError as error:
            # any other 404 means that the address is wrong, and says nothing about the hotel
            if error.code == "hotel_not_found":
                return None
            raise

    def _ask(self, path, check, body=None, ids=None):
        """Retries, because no request changes anything: after a random time up to the backoff, no sooner than Retry-After.

        Returns the body and the `Link` header.
        """
        request = urllib.request.Request(self._url + path, data=body)
        request.add_header("x-api-key", self._key)
        request.add_header("accept-encoding", "gzip")
        if body:
            request.add_header("content-type", "application/json")
        for attempt in range(1, self._max_attempts + 1):
            wait_s = BACKOFF_S * 2 ** (attempt - 1) * random.random()
            try:
                return self._try(request, check, ids)
            except HotelApiError as error:
                wait_s = max(wait_s, error.retry_after_s or 0)
                if error.status not in RETRIED or attempt == self._max_attempts or wait_s > self._max_wait_s:
                    raise
            # the connection failed, or the response was cut short on the way
            except (OSError, http.client.HTTPException, EOFError, ValueError, zlib.error):
                if attempt == self._max_attempts:
                    raise
            time.sleep(wait_s)

    def _try(self, request, check, ids):
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                body = json.loads(_unpack(answer))
                if not check(body):
                    raise ValueError(f"the response to {request.selector} is not one of the hotel API")
                return body, answer.headers.get("link", "")
        except urllib.error.HTTPError as answer:
            with answer:
                raise _error_of(answer, ids) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        """A redirect would take the key elsewhere."""
        return None


def _is_hotel(body):
    return isinstance(body, dict) and isinstance(body.get("id"), str)


def _is_list(body):
    return isinstance(body, list) and all(map(_is_hotel, body))


def _is_page(body):
    if not (isinstance(body, dict) and _is_list(body.get("changes"))):
        return False
    if not (isinstance(body.get("next"), str) and isinstance(body.get("more"), bool)):
        return False
    hotels = [(change["id"], change.get("hotel", {})) for change in body["changes"]]
    return all(hotel is None or (_is_hotel(hotel) and hotel["id"] == id) for id, hotel in hotels)


def _error_of(answer, ids):
    code, position = answer.headers.get("x-error-code"), answer.headers.get("x-error-position")
    message = "not a response of the hotel API, check the address"
    if code:
        try:
            message = json.loads(_unpack(answer))["error"]
        except (OSError, http.client.HTTPException, EOFError, ValueError, LookupError, zlib.error):
            message = code
    wrong = ids[int(position)] if ids and position else None
    return HotelApiError(
        message, answer.code, code, wrong, answer.headers.get("x-request-id"), _retry_after_s(answer.headers)
    )


def _retry_after_s(headers):
    """Retry-After is a number of seconds, or a date where a gateway sends it."""
    value = headers.get("retry-after", "")
    if value.isdecimal():
        return int(value)
    until, now = email.utils.parsedate_tz(value), email.utils.parsedate_tz(headers.get("date", ""))
    if not until:
        return None
    return max(0, email.utils.mktime_tz(until) - (email.utils.mktime_tz(now) if now else time.time()))


def _unpack(answer):
    data = answer.read()
    return gzip.decompress(data) if answer.headers.get("content-encoding") == "gzip" else data


if __name__ == "__main__":
    api = HotelApi(os.environ["HOTEL_API_URL"], os.environ["HOTEL_API_KEY"])

    # one hotel
    hotel = api.hotel("htl_sliji9ej")
    print(hotel["name"], hotel["city"], hotel["certified"])

    # as many as you like: split into batches of 1000
    ids = [f"CH{100_001 + i}" for i in range(2500)]
    found = list(api.hotels_by_channel_ids(ids))
    print(f"{len(found)} of {len(ids)} found")

    # all there are
    print(f"{sum(1 for _ in api.hotels())} hotels")
