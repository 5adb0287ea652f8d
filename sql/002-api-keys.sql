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
  check ((rate_limit_requests is null) = (rate_limit_window_s is null))
);

create index api_keys_by_collection on api_keys (collection_id) where collection_id is not null;
