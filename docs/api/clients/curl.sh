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
# every page, from the first to the last: each names the next in its header Link. curl repeats 4xx too; a failure ends the loop
# with status 1
(
  url="$HOTEL_API_URL/hotels?limit=100"
  while [ -n "$url" ]; do
    curl -sS --fail --retry 4 --retry-all-errors --retry-max-time 60 -D headers.txt -o page.json \
      -H "x-api-key: $HOTEL_API_KEY" "$url" || exit 1
    cat page.json
    next=$(sed -n 's/^[Ll]ink:.*<\([^>]*\)>; rel="next".*/\1/p' headers.txt)
    case $next in
      \?*) url=$HOTEL_API_URL/hotels$next ;;
      *) url=$next ;;
    esac
  done
)

## mirror
# a copy from the beginning: every page of changes, until there are no more. To go on later, set `after` to the last `next`; after a
# 410, leave it empty. curl repeats 4xx too; a failure ends the loop with status 1
(
  after=
  while :; do
    curl -sS --fail --retry 4 --retry-all-errors --retry-max-time 60 -o changes.json \
      -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/changes?limit=1000${after:+&after=$after}" || exit 1
    cat changes.json
    echo
    after=$(sed 's/.*"next":"\([^"]*\)".*/\1/' changes.json)
    if grep -q '"more":false}$' changes.json; then break; fi
  done
)

## conditional request
# curl keeps the ETag in a file; the second answer is 304, without a body
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" --etag-save etag.txt "$HOTEL_API_URL/hotels/htl_sliji9ej"
curl -sS --fail-with-body -H "x-api-key: $HOTEL_API_KEY" --etag-compare etag.txt -o /dev/null -w '%{http_code}\n' \
  "$HOTEL_API_URL/hotels/htl_sliji9ej"

## compression
# --compressed asks for what this curl can unpack, and unpacks it
curl -sS --fail-with-body --compressed -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels?limit=100"

## retries
# five attempts, within a minute: after the seconds of Retry-After, else after 1, 2, 4 and 8 s. --retry-all-errors covers lost
# connections and cut bodies; it repeats 4xx too. -o begins the file anew with each attempt
curl -sS --fail --retry 4 --retry-all-errors --retry-max-time 60 -o hotel.json \
  -H "x-api-key: $HOTEL_API_KEY" "$HOTEL_API_URL/hotels/htl_sliji9ej" && cat hotel.json
