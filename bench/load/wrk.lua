-- Sends the requests of a file in order, from a position in it. Arguments: file, position.
-- The file holds for each request its length in decimal, a line end, and its bytes.
local requests, count, at = {}, 0, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  while true do
    local length = file:read("*l")
    if not length then break end
    count = count + 1
    requests[count] = file:read(tonumber(length))
  end
  file:close()
  at = tonumber(args[2]) % count
end

function request()
  at = at % count + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"durationUs":%d,"bytes":%d,"status":%d,"broken":%d,"timeout":%d,"p50Us":%d,"p99Us":%d}\n',
    summary.requests, summary.duration, summary.bytes, errors.status,
    errors.connect + errors.read + errors.write, errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
