-- How often a key may be used: so many requests in each window, counted for each instance of the service; null: no
-- limit. The triggers on the table tell the caches of a change, as of any other.
alter table api_keys
  add column rate_limit_requests integer check (rate_limit_requests between 1 and 1000000),
  add column rate_limit_window_s integer check (rate_limit_window_s in (1, 60, 3600)),
  add check ((rate_limit_requests is null) = (rate_limit_window_s is null));
