#!/bin/sh
# The hotel data API with curl 7.83 or newer. HOTEL_API_URL and HOTEL_API_KEY come from the environment.
set -eu

## the key
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/key"

## first call
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels?limit=2"

## single hotels
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels/htl_sliji9ej"
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels/channel/CH100011"
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels/registry/500011"

## batches
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" -H 'content-type: application/json' \
  -d '{"ids":["htl_sliji9ej","htl_36i8v7jp"]}' "$HOTEL_API_URL/hotels/batch"
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" -H 'content-type: application/json' \
  -d '{"channel_ids":["CH100011","CH100005"]}' "$HOTEL_API_URL/hotels/channel/batch"
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" -H 'content-type: application/json' \
  -d '{"registry_ids":[500011,"500005"]}' "$HOTEL_API_URL/hotels/registry/batch"

## paging
# every page, from the first to the last: each names the next in its header Link
url="$HOTEL_API_URL/hotels?limit=100"
while [ -n "$url" ]; do
  curl -sS --fail-with-body -D headers.txt -H "x-api-key: $HOTEL_API_KEY" "$url"
  next=$(sed -n 's/^[Ll]ink:.*<\([^>]*\)>; rel="next".*/\1/p' headers.txt)
  case $next in
    \?*) url=$HOTEL_API_URL/hotels$next ;;
    *) url=$next ;;
  esac
done

## mirror
# every page of changes, until there are no more; the last `next` is for the next time
after=
until printf %s "${page:-}" | grep -q '"more":false}$'; do
  page=$(curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/changes?limit=1000${after:+&after=$after}")
  printf '%s\n' "$page"
  after=$(printf %s "$page" | sed 's/.*"next":"\([^"]*\)".*/\1/')
done

## conditional request
# curl keeps the ETag in a file; the second answer is 304, without a body
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" --etag-save etag.txt "$HOTEL_API_URL/hotels/htl_sliji9ej"
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" --etag-compare etag.txt -o /dev/null -w '%{http_code}\n' \
  "$HOTEL_API_URL/hotels/htl_sliji9ej"

## compression
# --compressed asks for what this curl can unpack, and unpacks it
curl -sS --fail-with-body --compressed -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels?limit=100"

## retries
# waits for the seconds of Retry-After after 429 and 503, and a little longer each time where there is none
curl -sS --fail --retry 5 -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels/htl_sliji9ej"
