-- API keys: the table contains the sha256 of a key and never the key.
create table api_keys (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name text not null check (char_length(name) between 1 and 200),
  key_sha256 bytea not null unique check (octet_length(key_sha256) = 32),
  scopes text[] not null default '{}' check (scopes <@ array['registry'] and array_position(scopes, null) is null),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  -- successor after a rotation
  rotated_to text references api_keys (id),
  -- Rate limit: requests in each window, counted by each instance of the service; null: no limit.
  rate_limit_requests integer check (rate_limit_requests between 1 and 1000000),
  rate_limit_window_s integer check (rate_limit_window_s in (1, 60, 3600)),
  -- The key sees the hotels of this collection; null: all hotels. No foreign key: a deleted collection leaves its keys
  -- without any hotel. A reference could only forbid the deletion, delete the keys, or set null, which shows all hotels.
  collection_id text check (char_length(collection_id) between 1 and 255),
  -- who created and revoked the key: the login, and a note
  created_by text not null default session_user,
  created_note text check (char_length(created_note) between 1 and 500),
  revoked_by text,
  revoked_note text check (char_length(revoked_note) between 1 and 500),
  check ((rate_limit_requests is null) = (rate_limit_window_s is null))
);

create index api_keys_by_collection on api_keys (collection_id) where collection_id is not null;

-- What was served, by day (UTC) and key. It outlives a key that is deleted.
create table hotel_api_usage (
  day date not null,
  key_id text not null,
  requests bigint not null,
  hotels bigint not null,
  bytes bigint not null,
  last_used_at timestamptz not null,
  primary key (day, key_id)
);

-- Adds what an instance has counted, and deletes what is older than 90 days. The service may write the table by this function
-- alone: it counts existing keys only, for yesterday and today, and no argument makes a number overflow or shrink.
create function hotel_api_count_usage(counts json) returns void
  language sql security definer set search_path from current as $$
  insert into hotel_api_usage as usage
  select counted.day, id, least(counted.requests, 4e18), least(counted.hotels, 4e18), least(counted.bytes, 4e18), now()
  from json_to_recordset(counts) as counted (day date, key_id text, requests numeric, hotels numeric, bytes numeric)
  join api_keys on id = key_id
  where counted.requests > 0 and counted.hotels >= 0 and counted.bytes >= 0
    and counted.day - (now() at time zone 'UTC')::date in (-1, 0)
  -- instances write the same rows in one order
  order by day, id
  on conflict (day, key_id) do update set
    requests = least(usage.requests + excluded.requests, 4e18),
    hotels = least(usage.hotels + excluded.hotels, 4e18),
    bytes = least(usage.bytes + excluded.bytes, 4e18),
    last_used_at = excluded.last_used_at;
  delete from hotel_api_usage where day < (now() at time zone 'UTC')::date - 90;
$$;
revoke all on function hotel_api_count_usage(json) from public;
