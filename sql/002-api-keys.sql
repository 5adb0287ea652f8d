-- API keys: the table knows a key's sha256 and never the key.
create table api_keys (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name text not null check (char_length(name) between 1 and 200),
  key_sha256 bytea not null unique check (octet_length(key_sha256) = 32),
  scopes text[] not null default '{}' check (scopes <@ array['registry'] and array_position(scopes, null) is null),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  -- the key that took this one's place when it was rotated
  rotated_to text references api_keys (id),
  -- How often the key may be used: so many requests in each window, counted for each instance of the service;
  -- null: no limit.
  rate_limit_requests integer check (rate_limit_requests between 1 and 1000000),
  rate_limit_window_s integer check (rate_limit_window_s in (1, 60, 3600)),
  version bigint not null,
  check ((rate_limit_requests is null) = (rate_limit_window_s is null))
);
