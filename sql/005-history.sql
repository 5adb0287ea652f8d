-- The history of this database. Cached values are valid in one history only. A copy of the database, a restored dump or
-- snapshot, and a replica that was promoted without the last changes each begin another history, with random names that
-- are never repeated.

-- Draws 488 random bits from the server's generator.
create function hotel_api_draw_secret() returns bytea language sql volatile
  return sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
      || uuid_send(gen_random_uuid())
  );

-- Draws 72 random bits as text.
create function hotel_api_draw_name() returns text language sql volatile
  return translate(encode(substr(hotel_api_draw_secret(), 1, 9), 'base64'), '+/', '-_');

-- The secret that only the instances know. It signs the messages of the change feed, which any login could forge
-- otherwise, and the values of keys in Redis. Each history has its own. A dump contains it.
create table hotel_api_secrets (
  secret bytea not null check (octet_length(secret) = 32),
  is_the_only_row boolean primary key default true check (is_the_only_row)
);
insert into hotel_api_secrets values (hotel_api_draw_secret());

-- Identifies this database among its copies: its number on the server, the server's identifier, and the timeline. A
-- managed server may hide some of them, and a replica always hides its timeline.
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

-- Position of the change feed in the history. The active invalidator writes this row in the transaction that announces
-- changes, after the changes were committed. A replica replays commits in their order, so a snapshot that shows this
-- row also shows those changes.
create table hotel_api_feed_position (
  history text not null default hotel_api_draw_name(),
  -- reason for the history
  reason text not null default 'the schema was created',
  -- Prefix of the keys in Redis. A new one is drawn whenever Redis may have missed or lost a change. Values under earlier
  -- prefixes are never read again and expire.
  generation text not null default hotel_api_draw_name(),
  -- the term that may announce changes
  leader text not null default '',
  -- the last term that announced changes, its number, and the number of its messages so far; each term and each history
  -- has a larger number than those before it
  term text not null default '',
  number bigint not null default 0,
  count bigint not null default 0,
  -- place, transaction and last version at which this row was written, which reveal that the row was restored
  place text not null default hotel_api_place(),
  written_by xid8 not null default pg_current_xact_id(),
  version bigint not null default 0,
  is_the_only_row boolean primary key default true check (is_the_only_row)
);
insert into hotel_api_feed_position default values;

-- Returns the reason why a new history must begin; null: the row is as it was written.
create function hotel_api_history_fault() returns text
  language sql volatile security definer set search_path from current as $$
  select case
    when place <> hotel_api_place() then 'it is a copy, was promoted or runs on another server'
    when xmin <> written_by::xid then 'it was restored'
    when version > (select last_value from hotel_api_versions) then 'the sequence of versions was restored'
  end
  from hotel_api_feed_position
$$;

-- For every instance: the position of the feed with the secret of the history.
create function hotel_api_position()
  returns table (
    history text, reason text, generation text, term text, number bigint, count bigint, secret bytea, fault text
  )
  language sql volatile security definer set search_path from current as $$
  select t.history, t.reason, t.generation, t.term, t.number, t.count, s.secret, hotel_api_history_fault()
  from hotel_api_feed_position as t, hotel_api_secrets as s
$$;

-- Begins a history if the present one is still `ended`. Versions continue above all cached ones: 2^32 above the sequence
-- and above `received`, as long as a double holds them with a half. Numbers continue above `received_number`, so that no
-- instance takes the new history for an earlier one.
create function hotel_api_begin_history(ended text, why text, received bigint, received_number bigint) returns void
  language plpgsql security definer set search_path from current as $$
declare
  next bigint;
begin
  perform from hotel_api_feed_position where history = ended for update;
  if not found then
    return;
  end if;
  select greatest(last_value, received) + 4294967296 into next from hotel_api_versions;
  if next < 4503599627370496 then
    perform setval('hotel_api_versions', next);
  end if;
  delete from hotel_api_secrets;
  insert into hotel_api_secrets values (hotel_api_draw_secret());
  update hotel_api_feed_position set
    history = default, reason = why, generation = default, leader = '', term = '',
    number = greatest(number, received_number) + 1, count = 0,
    place = default, written_by = default, version = (select last_value from hotel_api_versions);
end $$;

-- Begins a term of the invalidator; from then on no other term can announce changes. Returns the position that it
-- continues. The last position that the leader received shows whether the row has gone back. The term would hide that by
-- writing the row.
create function hotel_api_begin_term(
  new_leader text, received_version bigint, received_history text, received_number bigint, received_term text,
  received_count bigint
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
      select 'it has lost announced changes' from hotel_api_feed_position
      where number < received_number
        or number = received_number
          and (history <> received_history or term <> received_term or count < received_count)
    )
  );
  if fault is not null then
    perform hotel_api_begin_history(history, fault, received_version, received_number) from hotel_api_feed_position;
  end if;
  update hotel_api_feed_position set leader = new_leader, written_by = default;
  return query select * from hotel_api_feed_position;
end $$;

-- For the active invalidator, in every transaction that sends messages: records the number of messages that its term has
-- announced, and the generation, if they have changed. Throws if the term has ended or another wrote the row.
create function hotel_api_announce(
  announcing_term text, session_pid integer, announced_before bigint, announced bigint, new_generation text
) returns void
  language plpgsql security definer set search_path from current as $$
declare
  was hotel_api_feed_position;
begin
  select * into was from hotel_api_feed_position;
  if was.leader is distinct from announcing_term
    or (case was.term when announcing_term then was.count else 0 end) <> announced_before
    -- the place of a session never changes, so it is not compared
    or not exists (
      select from hotel_api_feed_position where xmin = written_by::xid and version <= (select last_value from hotel_api_versions)
    )
  then
    raise exception 'another term or another history has begun';
  end if;
  -- after a reconnect the driver would run this outside of the transaction that drained the queue
  if pg_backend_pid() <> session_pid then
    raise exception 'the session of the term has ended';
  end if;
  if announced > announced_before or new_generation <> was.generation then
    update hotel_api_feed_position set
      generation = new_generation, term = announcing_term, number = number + (term <> announcing_term)::integer,
      count = announced, written_by = default, version = (select last_value from hotel_api_versions);
  end if;
end $$;

-- Announced changes must not be lost, and rows may be cached before their change is announced. A transaction that changes
-- a hotel or a key, or announces changes, is therefore durable before it is visible, whatever synchronous_commit says. The
-- triggers fire at the end of the transaction, which may set it after its last change.
create function hotel_api_commit_durably() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  return null;
end $$;
create constraint trigger hotel_api_durable after insert on hotel_api_changes deferrable initially deferred
  for each row execute function hotel_api_commit_durably();
alter table hotel_api_changes enable always trigger hotel_api_durable;
create constraint trigger hotel_api_durable after update on hotel_api_feed_position deferrable initially deferred
  for each row execute function hotel_api_commit_durably();

revoke all on function
  hotel_api_draw_secret(), hotel_api_draw_name(), hotel_api_place(), hotel_api_history_fault(), hotel_api_position(),
  hotel_api_begin_history(text, text, bigint, bigint),
  hotel_api_begin_term(text, bigint, text, bigint, text, bigint),
  hotel_api_announce(text, integer, bigint, bigint, text), hotel_api_commit_durably()
from public;
grant select on hotel_api_feed_position to hotel_api_serve;
grant execute on function
  hotel_api_position(), hotel_api_begin_history(text, text, bigint, bigint),
  hotel_api_begin_term(text, bigint, text, bigint, text, bigint),
  hotel_api_announce(text, integer, bigint, bigint, text)
to hotel_api_serve;
