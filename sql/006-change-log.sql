-- The change log: of each hotel that changed lately, the position of its last change. `GET /changes` reads it.
-- The active invalidator alone writes it, in the transaction that takes the changes off the queue. Positions therefore
-- follow the order in which changes are announced. Versions do not: they may be committed in another order.

-- The log keeps 31 days of changes. A hotel that is in the log and not in `hotels` is gone.
create table hotel_api_change_log (
  -- in byte order, whose comparisons are faster than those of a language; queries that join it say so
  id text collate "C" primary key,
  position bigint not null,
  changed_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index hotel_api_change_log_by_position on hotel_api_change_log (position);

create table hotel_api_change_log_state (
  -- of the last change
  position bigint not null default 0,
  -- The log is complete after this position only.
  oldest bigint not null default 0,
  -- The log of memberships (007-collections.sql) is complete after this position only.
  oldest_of_collections bigint not null default 0,
  -- The log shows hotels as they are certified on this day, in UTC.
  day date not null default (now() at time zone 'UTC')::date,
  -- While the log takes in the hotels whose certification begins or ends between two days: these, and the last id
  -- that was scanned.
  flips_from date,
  flips_to date,
  flips_after text,
  is_the_only_row boolean primary key default true check (is_the_only_row)
) with (fillfactor = 10);
insert into hotel_api_change_log_state default values;

-- For `hotel_api_drain`: gives each of these hotels a position after all others. The ids must differ; in byte order they
-- are written a third faster. Where the table was truncated, the log begins anew. The lock on the state lasts until the
-- end of the transaction. A snapshot that shows a position therefore shows all positions before it.
create function hotel_api_log_changes(changed text[], was_truncated boolean) returns bigint
  language plpgsql security definer set search_path from current as $$
declare
  last_position bigint;
begin
  loop
    update hotel_api_change_log_state set
      position = position + was_truncated::integer + cardinality(changed),
      oldest = case when was_truncated then position + 1 else oldest end
    returning position into last_position;
    exit when found;
    -- the row was lost in a restore: no position that was given out counts
    insert into hotel_api_change_log_state (position, oldest)
      select last, last from (select coalesce(max(position), 0) + 1 as last from hotel_api_change_log) as log
      on conflict do nothing;
  end loop;
  insert into hotel_api_change_log (id, position)
    select id, last_position - cardinality(changed) + place
    from unnest(changed) with ordinality as ids (id, place)
  on conflict (id) do update set position = excluded.position, changed_at = excluded.changed_at;
  return last_position;
end $$;

-- Logs hotels whose certification begins or ends with this day, or with a day that was left out. A call scans up to
-- 10,000 hotels. Returns whether that was all.
create function hotel_api_log_flips(today date) returns boolean
  language plpgsql security definer set search_path from current as $$
declare
  state hotel_api_change_log_state;
  flipped text[];
  looked_at bigint;
begin
  perform hotel_api_log_changes('{}', false);
  select * into state from hotel_api_change_log_state;
  if state.day <> today then
    update hotel_api_change_log_state set
      day = today,
      flips_from = least(flips_from, day, today),
      flips_to = greatest(flips_to, day, today),
      flips_after = ''
    returning * into state;
  end if;
  if state.flips_after is null then
    return true;
  end if;
  select array_agg(id) filter (where flips), count(*), max(id collate "C")
  into flipped, looked_at, state.flips_after
  from (
    select id, certified_from <= certified_until and (
        certified_from > state.flips_from and certified_from <= state.flips_to
        or certified_until >= state.flips_from and certified_until < state.flips_to
      ) as flips
    from hotels where id collate "C" > state.flips_after
    order by id collate "C" limit 10000
  ) as piece;
  if flipped is not null then
    perform hotel_api_log_changes(flipped, false);
  end if;
  if looked_at = 10000 then
    update hotel_api_change_log_state set flips_after = state.flips_after;
    return false;
  end if;
  update hotel_api_change_log_state set flips_from = null, flips_to = null, flips_after = null;
  return true;
end $$;

-- Deletes up to 1000 rows of each log of more than 31 days, or from before the table was truncated. Returns how many it
-- deleted. Both logs have one order, so a position is old only if none before it is young.
create function hotel_api_prune_change_log() returns integer
  language plpgsql security definer set search_path from current as $$
declare
  expired bigint;
  deleted integer;
  deleted_members integer;
begin
  select max(position) into expired
  from (
    select position, bool_and(changed_at < now() - interval '31 days') over (order by position) as is_old
    from (
      (select position, changed_at from hotel_api_change_log order by position limit 1000)
      union all
      (select position, changed_at from hotel_api_member_log order by position limit 1000)
      order by position limit 1000
    ) as first_rows
  ) as rated
  where is_old;
  update hotel_api_change_log_state set oldest = expired where oldest < expired;
  delete from hotel_api_change_log
  where id = any (array(
    select id from hotel_api_change_log
    where position <= (select oldest from hotel_api_change_log_state) order by position limit 1000
  ));
  get diagnostics deleted = row_count;
  delete from hotel_api_member_log
  where ctid = any (array(
    select ctid from hotel_api_member_log
    where position <= (select oldest from hotel_api_change_log_state) order by position limit 1000
  ));
  get diagnostics deleted_members = row_count;
  return deleted + deleted_members;
end $$;

revoke all on function
  hotel_api_log_changes(text[], boolean), hotel_api_log_flips(date), hotel_api_prune_change_log()
from public;
grant select on hotel_api_change_log, hotel_api_change_log_state to hotel_api_serve;
grant execute on function
  hotel_api_log_changes(text[], boolean), hotel_api_log_flips(date), hotel_api_prune_change_log()
to hotel_api_serve;
