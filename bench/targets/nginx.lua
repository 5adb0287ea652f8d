-- Peer as an OpenResty developer would write it: bodies as strings in lrucache before Redis; a batch is one MGET of
-- the missing ones. Keys without the scope have separate strings. Loaded once a worker; nginx.ts passes its settings.
local settings = ...
local redis = require "nginx.redis"
local cjson = require "cjson.safe"

-- a separate cache for each view and prefix, so that the id is its key
local lrucache = settings.lru and require "resty.lrucache"
local function caches()
  if not lrucache then return {} end
  return { ["hotel:"] = assert(lrucache.new(120000)), ["hotel:channel:"] = assert(lrucache.new(120000)) }
end
local full, narrow = { full = true, caches = caches() }, { full = false, caches = caches() }
local views = { [settings.full_key] = full, [settings.narrow_key] = narrow }
local TTL = 3600

local function reject(status, sentence)
  local body = '{"error":"' .. sentence .. '"}'
  ngx.status = status
  ngx.header.content_type = "application/json"
  ngx.header.content_length = #body
  ngx.print(body)
  return ngx.exit(status)
end

local function view_of_key()
  local view = views[ngx.var.http_x_api_key or ""]
  if not view then return reject(401, "Unauthorized") end
  return view
end

local function mget(keys)
  local connection = redis:new()
  connection:set_timeouts(500, 1000, 1000)
  assert(connection:connect("127.0.0.1", settings.redis_port))
  if connection:get_reused_times() == 0 then assert(connection:select(settings.redis_database)) end
  local values = assert(connection:mget(unpack(keys)))
  connection:set_keepalive(60000, 256)
  return values
end

local function seen_by(view, body)
  if view.full then return body end
  return (body:gsub('"registry_id":[^,}]*}$', '"registry_id":null}'))
end

local function one(prefix, id)
  local view = view_of_key()
  local cache = view.caches[prefix]
  local body = cache and cache:get(id)
  if not body then
    body = mget({ prefix .. id })[1]
    if body == ngx.null then return reject(404, "Hotel not found") end
    body = seen_by(view, body)
    if cache then cache:set(id, body, TTL) end
  end
  ngx.header.content_type = "application/json"
  ngx.header.content_length = #body
  ngx.print(body)
end

local function batch()
  local view = view_of_key()
  ngx.req.read_body()
  local asked = cjson.decode(ngx.req.get_body_data() or "")
  local ids = asked and asked.channel_ids
  if type(ids) ~= "table" then return reject(400, "Request body must include a `channel_ids` array") end
  local cache = view.caches["hotel:channel:"]
  local bodies, missing, places = {}, {}, {}
  for i = 1, #ids do
    local body = cache and cache:get(ids[i])
    if body then
      bodies[i] = body
    else
      bodies[i] = false
      missing[#missing + 1] = "hotel:channel:" .. ids[i]
      places[#places + 1] = i
    end
  end
  if #missing > 0 then
    local values = mget(missing)
    for at, value in ipairs(values) do
      if value ~= ngx.null then
        local body = seen_by(view, value)
        bodies[places[at]] = body
        if cache then cache:set(ids[places[at]], body, TTL) end
      end
    end
  end
  -- printed as parts: one string of a megabyte would be hashed, copied and collected
  local parts, length = { "[" }, 2
  for i = 1, #ids do
    local body = bodies[i]
    if body then
      if parts[2] then
        parts[#parts + 1] = ","
        length = length + 1
      end
      parts[#parts + 1] = body
      length = length + #body
    end
  end
  parts[#parts + 1] = "]"
  ngx.header.content_type = "application/json"
  ngx.header.content_length = length
  ngx.print(parts)
end

return {
  by_id = function() return one("hotel:", ngx.var.id) end,
  by_channel = function() return one("hotel:channel:", ngx.var.id) end,
  batch = batch,
}
