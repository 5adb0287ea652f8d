-- Collections: a key of a collection sees the hotels of that collection and no other. A key of none sees all.
-- Other systems write these tables with plain SQL.

create table collections (
  id text primary key check (char_length(id) between 1 and 255),
  name text not null check (char_length(name) between 1 and 200)
);

-- A membership names a hotel by its id, whether or not that hotel exists. A collection may be written before its hotels
-- are imported, and it stays as it is when the table of hotels is truncated and filled again. Writes of hotels pay
-- nothing for it.
create table collection_hotels (
  collection_id text not null references collections (id) on delete cascade on update cascade,
  hotel_id text not null check (char_length(hotel_id) between 1 and 255),
  primary key (collection_id, hotel_id)
);

-- Lists are ordered by id in byte order, whatever the collation of the database.
create unique index collection_hotels_by_id_bytes on collection_hotels (collection_id, hotel_id collate "C");

-- Expects a transition table named "changed".
create function hotel_api_note_members() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, collection_id, ids, versions, moves_positions)
    select 'members', collection_id, array_agg(hotel_id), '{}', false
    from (
      select collection_id, hotel_id, (row_number() over (partition by collection_id) - 1) / 1000 as chunk from changed
    ) as numbered
    group by collection_id, chunk;
  return null;
end $$;

-- Notes the one row of a row trigger.
create function hotel_api_note_member() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, collection_id, ids, versions, moves_positions)
    select 'members', collection_id, array[hotel_id], '{}', false
    from (values (old.collection_id, old.hotel_id), (new.collection_id, new.hotel_id)) as both_rows (collection_id, hotel_id)
    where collection_id is not null;
  return null;
end $$;

-- Expects a transition table named "changed".
create function hotel_api_note_collections() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, moves_positions)
    select 'collections', array_agg(id), '{}', false
    from (select id, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

-- Notes the one row of a row trigger.
create function hotel_api_note_collection() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_changes (kind, ids, versions, moves_positions)
    values ('collections', array_remove(array[old.id, new.id], null), '{}', false);
  return null;
end $$;

create trigger hotel_api_inserted after insert on collection_hotels referencing new table as changed
  for each statement execute function hotel_api_note_members();
create trigger hotel_api_updated after update on collection_hotels referencing new table as changed
  for each statement execute function hotel_api_note_members();
create trigger hotel_api_replaced after update on collection_hotels referencing old table as changed
  for each statement execute function hotel_api_note_members();
create trigger hotel_api_deleted after delete on collection_hotels referencing old table as changed
  for each statement execute function hotel_api_note_members();
create trigger hotel_api_truncated after truncate on collection_hotels
  for each statement execute function hotel_api_note_truncate('collections_truncated');

create trigger hotel_api_inserted after insert on collections referencing new table as changed
  for each statement execute function hotel_api_note_collections();
create trigger hotel_api_updated after update on collections referencing new table as changed
  for each statement execute function hotel_api_note_collections();
create trigger hotel_api_replaced after update on collections referencing old table as changed
  for each statement execute function hotel_api_note_collections();
create trigger hotel_api_deleted after delete on collections referencing old table as changed
  for each statement execute function hotel_api_note_collections();
create trigger hotel_api_truncated after truncate on collections
  for each statement execute function hotel_api_note_truncate('collections_truncated');

-- As for hotels: sessions with session_replication_role = replica fire these alone.
create trigger hotel_api_replicated after insert or update or delete on collection_hotels
  for each row execute function hotel_api_note_member();
create trigger hotel_api_replicated after insert or update or delete on collections
  for each row execute function hotel_api_note_collection();
alter table collection_hotels enable replica trigger hotel_api_replicated;
alter table collection_hotels enable always trigger hotel_api_truncated;
alter table collections enable replica trigger hotel_api_replicated;
alter table collections enable always trigger hotel_api_truncated;

-- The log of memberships, for `GET /changes`: of each hotel that came into a collection or went out, the position of the
-- last time. A hotel that is in the log and not in the collection is gone for its keys.
create table hotel_api_member_log (
  collection_id text not null,
  hotel_id text not null,
  position bigint not null,
  changed_at timestamptz not null default clock_timestamp(),
  primary key (collection_id, hotel_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index hotel_api_member_log_of_collection on hotel_api_member_log (collection_id, position);
create index hotel_api_member_log_by_position on hotel_api_member_log (position);

-- For `hotel_api_drain`: gives each pair of a collection and a hotel a position after all others. Without pairs the
-- position advances too, so that pages are read again: a collection was created, renamed or deleted.
create function hotel_api_log_members(changed_collections text[], changed_hotels text[], was_truncated boolean) returns void
  language plpgsql security definer set search_path from current as $$
declare
  first_position bigint;
begin
  -- the row is there and locked from here on
  first_position := hotel_api_log_changes('{}', false);
  insert into hotel_api_member_log (collection_id, hotel_id, position)
    select collection_id, hotel_id, first_position + row_number() over ()
    from (select distinct collection_id, hotel_id from unnest(changed_collections, changed_hotels) as pairs (collection_id, hotel_id)) as pairs
  on conflict (collection_id, hotel_id) do update set position = excluded.position, changed_at = excluded.changed_at;
  update hotel_api_change_log_state set
    position = first_position + cardinality(changed_hotels) + 1,
    oldest_of_collections = case when was_truncated then first_position + 1 else oldest_of_collections end;
end $$;

revoke all on function hotel_api_log_members(text[], text[], boolean) from public;
grant select on hotel_api_member_log to hotel_api_serve;

revoke all on function
  hotel_api_note_members(), hotel_api_note_member(), hotel_api_note_collections(), hotel_api_note_collection()
from public;
grant select on collections, collection_hotels to hotel_api_serve;
