-- The change feed: each statement that changes a hotel or a key records the change in a queue, in the same transaction.
-- The active invalidator polls the queue 40 times a second. Writers send no NOTIFY: it would forbid to prepare their
-- transactions and would serialize their commits. A row of the queue holds up to 1000 changes, so that writers insert a
-- few wide rows instead of one per hotel.

create table hotel_api_changes (
  -- 'hotels', 'hotels_removed', 'hotels_truncated', 'keys', 'keys_truncated';
  -- 'members': hotels that came into a collection or went out; 'collections': collections that were created, renamed or
  -- deleted; 'collections_truncated': any collection may have changed
  kind text not null check (kind ~ '^[a-z_]+$'),
  -- ids of hotels or collections, or sha256 of keys in hexadecimal
  ids text[] not null,
  -- of members
  collection_id text,
  -- the version of each; for a removed row its last version
  versions bigint[] not null,
  -- the present ids of each hotel, so that they can be announced without reading it; empty for removals and keys
  channel_ids text[] not null default '{}',
  registry_ids bigint[] not null default '{}',
  -- inserts and deletes move the positions of the list, updates do not
  moves_positions boolean not null,
  committed_after timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Triggers run with the rights and the search_path of their function's owner: writers have neither. `migrate` sets the
-- path to this schema and then pg_temp, and `from current` keeps it. PostgreSQL would otherwise search pg_temp first,
-- where every login may create tables.

-- This function runs once per row. It qualifies its names instead, because setting a path takes longer than drawing the
-- version.
do $do$
begin
  execute format($sql$
    create function hotel_api_stamp_version() returns trigger language plpgsql security definer as $$
    begin
      new.version := pg_catalog.nextval(%L::pg_catalog.regclass);
      return new;
    end $$
  $sql$, format('%I.hotel_api_versions', current_schema()));
end $do$;

-- Records the row of a row trigger. An UPDATE may change the primary key; the old id is then recorded as removed.
create function hotel_api_note_hotel() returns trigger
  language plpgsql security definer set search_path from current as $$
declare
  moves_positions constant boolean := old.id is distinct from new.id;
begin
  if moves_positions and tg_op <> 'INSERT' then
    insert into hotel_api_changes (kind, ids, versions, moves_positions)
      values ('hotels_removed', array[old.id], array[old.version], true);
  end if;
  if tg_op <> 'DELETE' then
    insert into hotel_api_changes (kind, ids, versions, channel_ids, registry_ids, moves_positions)
      values ('hotels', array[new.id], array[new.version], array[new.channel_id], array[new.registry_id],
        moves_positions);
  end if;
  return null;
end $$;

-- Expects a transition table named "changed"; trigger argument: moves_positions.
create function hotel_api_note_hotels() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, channel_ids, registry_ids, moves_positions)
    select 'hotels', array_agg(id), array_agg(version), array_agg(channel_id), array_agg(registry_id),
      tg_argv[0]::boolean
    from (
      select id, version, channel_id, registry_id, (row_number() over () - 1) / 1000 as chunk from changed
    ) as numbered
    group by chunk;
  return null;
end $$;

-- Does the same for deleted rows.
create function hotel_api_note_removed_hotels() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, moves_positions)
    select 'hotels_removed', array_agg(id), array_agg(version), true
    from (select id, version, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

create function hotel_api_note_keys() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, moves_positions)
    select 'keys', array_agg(encode(key_sha256, 'hex')), array_agg(version), false
    from (select key_sha256, version, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

-- Records the row of a row trigger.
create function hotel_api_note_key() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, moves_positions)
    select 'keys', array_agg(encode(sha256, 'hex')), array_agg(version), false
    from (values (old.key_sha256, old.version), (new.key_sha256, new.version)) as both_rows (sha256, version)
    where sha256 is not null;
  return null;
end $$;

create function hotel_api_note_truncate() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, moves_positions) values (tg_argv[0], '{}', '{}', true);
  return null;
end $$;

create trigger hotel_api_version before insert or update on hotels
  for each row execute function hotel_api_stamp_version();
create trigger hotel_api_renamed after update on hotels
  for each row when (old.id is distinct from new.id) execute function hotel_api_note_hotel();
create trigger hotel_api_inserted after insert on hotels referencing new table as changed
  for each statement execute function hotel_api_note_hotels('true');
create trigger hotel_api_updated after update on hotels referencing new table as changed
  for each statement execute function hotel_api_note_hotels('false');
create trigger hotel_api_deleted after delete on hotels referencing old table as changed
  for each statement execute function hotel_api_note_removed_hotels();
create trigger hotel_api_truncated after truncate on hotels
  for each statement execute function hotel_api_note_truncate('hotels_truncated');

create trigger hotel_api_version before insert or update on api_keys
  for each row execute function hotel_api_stamp_version();
create trigger hotel_api_inserted after insert on api_keys referencing new table as changed
  for each statement execute function hotel_api_note_keys();
create trigger hotel_api_updated after update on api_keys referencing new table as changed
  for each statement execute function hotel_api_note_keys();
create trigger hotel_api_replaced after update on api_keys referencing old table as changed
  for each statement execute function hotel_api_note_keys();
create trigger hotel_api_deleted after delete on api_keys referencing old table as changed
  for each statement execute function hotel_api_note_keys();
create trigger hotel_api_truncated after truncate on api_keys
  for each statement execute function hotel_api_note_truncate('keys_truncated');

-- Sessions with session_replication_role = replica fire none of the above: the apply of logical replication, some
-- restores. Apply fires no statement triggers except for TRUNCATE. The following triggers fire in such sessions only, so
-- a change is recorded once, and ordinary statements do not run a trigger per row.
create trigger hotel_api_replicated after insert or update or delete on hotels
  for each row execute function hotel_api_note_hotel();
create trigger hotel_api_replicated after insert or update or delete on api_keys
  for each row execute function hotel_api_note_key();
alter table hotels enable replica trigger hotel_api_replicated;
alter table api_keys enable replica trigger hotel_api_replicated;
alter table hotels enable always trigger hotel_api_version;
alter table hotels enable always trigger hotel_api_truncated;
alter table api_keys enable always trigger hotel_api_version;
alter table api_keys enable always trigger hotel_api_truncated;

-- Takes changes off the queue in the caller's transaction; a rollback restores them. It takes up to max_rows rows, and
-- no more once they hold max_changes. It writes them to the change log (006-change-log.sql). It reads the changed rows
-- afterwards, so these are never older than the changes. Each row of the result holds a change, a hotel or a key.
-- Hotels are not read if more than max_hotels changed. Keys are read unless max_hotels is negative.
create function hotel_api_drain(max_rows integer, max_changes integer, max_hotels integer)
  returns table (change hotel_api_changes, hotel hotels, key api_keys)
  language plpgsql security definer set search_path from current as $$
declare
  hotel_ids text[] := '{}';
  key_hashes text[] := '{}';
  was_truncated boolean := false;
  member_collections text[] := '{}';
  member_hotels text[] := '{}';
  collections_truncated boolean := false;
  collections_changed boolean := false;
begin
  for change in
    with locked as materialized (
      select ctid as place, cardinality(ids) as size from hotel_api_changes limit max_rows for update skip locked
    ), counted as (
      select place, sum(size) over (order by place) - size as before from locked
    )
    delete from hotel_api_changes
    where ctid = any (array(select place from counted where before < max_changes))
    returning *
  loop
    return next;
    if change.kind in ('hotels', 'hotels_removed') then
      hotel_ids := hotel_ids || change.ids;
    elsif change.kind = 'hotels_truncated' then
      was_truncated := true;
    elsif change.kind = 'members' then
      member_collections := member_collections || array_fill(change.collection_id, array[cardinality(change.ids)]);
      member_hotels := member_hotels || change.ids;
    elsif change.kind = 'collections_truncated' then
      collections_truncated := true;
    elsif change.kind = 'collections' then
      collections_changed := true;
    elsif change.kind = 'keys' then
      key_hashes := key_hashes || change.ids;
    end if;
  end loop;
  -- each statement of a function sees everything that was committed when it began
  hotel_ids := array(select distinct id collate "C" from unnest(hotel_ids) as id order by 1);
  if cardinality(hotel_ids) > 0 or was_truncated then
    perform hotel_api_log_changes(hotel_ids, was_truncated);
  end if;
  if cardinality(member_hotels) > 0 or collections_truncated or collections_changed then
    perform hotel_api_log_members(member_collections, member_hotels, collections_truncated);
  end if;
  if cardinality(hotel_ids) between 1 and max_hotels then
    return query select null::hotel_api_changes, h, null::api_keys from hotels as h where h.id = any (hotel_ids);
  end if;
  if cardinality(key_hashes) > 0 and max_hotels >= 0 then
    return query select null::hotel_api_changes, null::hotels, k from api_keys as k
      where k.key_sha256 = any (array(select decode(sha256, 'hex') from unnest(key_hashes) as sha256));
  end if;
end $$;

revoke all on function
  hotel_api_stamp_version(), hotel_api_note_hotel(), hotel_api_note_hotels(), hotel_api_note_removed_hotels(),
  hotel_api_note_key(), hotel_api_note_keys(), hotel_api_note_truncate(), hotel_api_drain(integer, integer, integer)
from public;
