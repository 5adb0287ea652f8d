-- The history of this database. Caches hold what was read in one history, and nothing of it is true in another: in a
-- copy of the database, in what was restored from a dump or a snapshot, on a replica that was promoted before it had
-- the last changes. Each begins a history of its own, with random names that no other one repeats.

-- 488 random bits of the server's own generator.
create function hotel_api_draw_secret() returns bytea language sql volatile
  return sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
      || uuid_send(gen_random_uuid())
  );

-- 72 of them, as text.
create function hotel_api_draw_name() returns text language sql volatile
  return translate(encode(substr(hotel_api_draw_secret(), 1, 9), 'base64'), '+/', '-_');

-- What the instances alone know. It signs the messages of the change feed, which any login could forge otherwise, and
-- the values of keys in Redis. Each history has its own. A dump holds it too.
create table hotel_api_secrets (
  secret bytea not null check (octet_length(secret) = 32),
  is_the_only_row boolean primary key default true check (is_the_only_row)
);
insert into hotel_api_secrets values (hotel_api_draw_secret());

-- What no copy of the database shares: its number on the server, the server's and that of the timeline. A managed
-- server may not tell all of them, and a replica never tells its timeline.
create function hotel_api_place() returns text
  language plpgsql security definer set search_path from current as $$
declare
  place text := (select oid::text from pg_database where datname = current_database());
begin
  begin
    place := place || ' ' || (select system_identifier from pg_control_system());
  exception when others then
    null;
  end;
  begin
    place := place || ' ' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
  exception when others then
    null;
  end;
  return place;
end $$;

-- Where the change feed stands in the history. The active invalidator writes this row in the transaction that tells
-- changes, after the changes were committed. A replica replays commits in their order, so a snapshot that shows this
-- row shows those changes too.
create table hotel_api_feed_position (
  history text not null default hotel_api_draw_name(),
  -- why the history began
  reason text not null default 'the schema was created',
  -- Keys in Redis begin with it. A new one is drawn whenever Redis may have missed or lost a change: what stands under
  -- the older ones is never read again and expires.
  generation text not null default hotel_api_draw_name(),
  -- the term that may tell
  leader text not null default '',
  -- the last term that told something, which one of the history it was, and how many messages it had told by then
  term text not null default '',
  number bigint not null default 0,
  count bigint not null default 0,
  -- where this row was written, in which transaction, and how far versions had come: a restored row shows itself
  place text not null default hotel_api_place(),
  written_by xid8 not null default pg_current_xact_id(),
  version bigint not null default 0,
  is_the_only_row boolean primary key default true check (is_the_only_row)
);
insert into hotel_api_feed_position default values;

-- Null while the row goes on from where it was written; else what befell it.
create function hotel_api_history_fault() returns text
  language sql volatile security definer set search_path from current as $$
  select case
    when place <> hotel_api_place() then 'it is a copy, was promoted or stands on another server'
    when xmin <> written_by::xid then 'it was restored'
    when version > (select last_value from hotel_api_versions) then 'the sequence of versions was restored'
  end
  from hotel_api_feed_position
$$;

-- For every instance: where the feed stands, with the secret of the history.
create function hotel_api_position()
  returns table (history text, reason text, generation text, term text, number bigint, count bigint, secret bytea, fault text)
  language sql volatile security definer set search_path from current as $$
  select t.history, t.reason, t.generation, t.term, t.number, t.count, s.secret, hotel_api_history_fault()
  from hotel_api_feed_position as t, hotel_api_secrets as s
$$;

-- Begins a history, unless the present one is another than `ended`. Versions go on above all that were ever cached: 2^32
-- above the sequence and above `heard`, as long as doubles hold them and a half.
create function hotel_api_begin_history(ended text, why text, heard bigint) returns void
  language plpgsql security definer set search_path from current as $$
declare
  next bigint;
begin
  perform from hotel_api_feed_position where history = ended for update;
  if not found then
    return;
  end if;
  select greatest(last_value, heard) + 4294967296 into next from hotel_api_versions;
  if next < 4503599627370496 then
    perform setval('hotel_api_versions', next);
  end if;
  delete from hotel_api_secrets;
  insert into hotel_api_secrets values (hotel_api_draw_secret());
  update hotel_api_feed_position set
    history = default, reason = why, generation = default, leader = '', term = '', number = number + 1, count = 0,
    place = default, written_by = default, version = (select last_value from hotel_api_versions);
end $$;

-- Begins a term of the invalidator; from now on no other can tell. Returns where it goes on from. What the leader heard
-- last of a history tells whether the row has gone back: the term would hide that by going on.
create function hotel_api_begin_term(
  new_leader text, heard_version bigint, heard_history text, heard_number bigint, heard_term text, heard_count bigint
) returns setof hotel_api_feed_position
  language plpgsql security definer set search_path from current as $$
declare
  fault text;
begin
  insert into hotel_api_feed_position (place) values ('') on conflict do nothing;
  perform from hotel_api_feed_position for update;
  fault := coalesce(
    hotel_api_history_fault(),
    (
      select 'it has lost what was told' from hotel_api_feed_position
      where history = heard_history
        and (number < heard_number or number = heard_number and (term <> heard_term or count < heard_count))
    )
  );
  if fault is not null then
    perform hotel_api_begin_history(history, fault, heard_version) from hotel_api_feed_position;
  end if;
  update hotel_api_feed_position set leader = new_leader, written_by = default;
  return query select * from hotel_api_feed_position;
end $$;

-- For the active invalidator, in every transaction that sends messages: notes that its term has told so many, and the
-- generation, where they are others than before. Throws where the term is over or the row is not as the term left it.
create function hotel_api_announce(
  teller text, session_pid integer, told_before bigint, told bigint, told_generation text
) returns void
  language plpgsql security definer set search_path from current as $$
declare
  was hotel_api_feed_position;
begin
  select * into was from hotel_api_feed_position;
  if was.leader is distinct from teller or (case was.term when teller then was.count else 0 end) <> told_before
    -- a session keeps its place
    or not exists (
      select from hotel_api_feed_position where xmin = written_by::xid and version <= (select last_value from hotel_api_versions)
    )
  then
    raise exception 'another term or another history has begun';
  end if;
  -- a driver that reconnects sends this outside of the transaction that drained the queue
  if pg_backend_pid() <> session_pid then
    raise exception 'the session of the term has ended';
  end if;
  if told > told_before or told_generation <> was.generation then
    update hotel_api_feed_position set
      generation = told_generation, term = teller, number = number + (term <> teller)::integer, count = told,
      written_by = default, version = (select last_value from hotel_api_versions);
  end if;
end $$;

-- What is told must not be lost, and what a query shows may be cached before it is told. So a transaction that changes a
-- hotel or a key is on disk before any other sees it, whatever synchronous_commit says.
create function hotel_api_commit_durably() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  return null;
end $$;
create trigger hotel_api_durable before insert on hotel_api_changes
  for each statement execute function hotel_api_commit_durably();
alter table hotel_api_changes enable always trigger hotel_api_durable;

revoke all on function
  hotel_api_draw_secret(), hotel_api_draw_name(), hotel_api_place(), hotel_api_history_fault(), hotel_api_position(),
  hotel_api_begin_history(text, text, bigint),
  hotel_api_begin_term(text, bigint, text, bigint, text, bigint),
  hotel_api_announce(text, integer, bigint, bigint, text), hotel_api_commit_durably()
from public;
grant select on hotel_api_feed_position to hotel_api_serve;
grant execute on function
  hotel_api_position(), hotel_api_begin_history(text, text, bigint),
  hotel_api_begin_term(text, bigint, text, bigint, text, bigint),
  hotel_api_announce(text, integer, bigint, bigint, text)
to hotel_api_serve;
