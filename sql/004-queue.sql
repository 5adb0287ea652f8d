-- The queue: each statement that changes a hotel, a key or a collection writes down what changed, in its own transaction.
-- The sequencer (005-log.sql) moves it into the log after the commit. Writers send no NOTIFY and draw no number of a
-- common row, so their transactions do not wait for each other and can be prepared.
--
-- A row holds up to 1000 ids. Rows are read by the transactions that wrote them, each once, and are deleted later.
create table hotel_api_queue (
  transaction bigint not null default pg_current_xact_id()::text::bigint,
  number bigint not null generated always as identity,
  -- hotels: changed, created or deleted; keys: ids are sha256 in hexadecimal; members: hotels that came into the
  -- collection or went out; collections: created, renamed or deleted; all_…: any row of the table may have changed
  kind text not null
    check (kind in ('hotels', 'keys', 'members', 'collections', 'all_hotels', 'all_keys', 'all_collections')),
  ids text[] not null default '{}',
  -- of hotels, their present ids of the other kinds; none for deleted hotels
  channel_ids text[] not null default '{}',
  registry_ids bigint[] not null default '{}',
  -- of members
  collection_id text,
  -- number of ids, which would have to be read from another place to be counted
  size integer not null,
  -- creations and deletions move the positions of the list
  moves boolean not null default false,
  primary key (transaction, number)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- compression takes longer than writing the bytes
alter table hotel_api_queue
  alter column ids set storage external,
  alter column channel_ids set storage external,
  alter column registry_ids set storage external;

-- Triggers run with the rights and the search_path of their function's owner: writers have neither. `migrate` sets the
-- path to this schema and then pg_temp, and `from current` keeps it. PostgreSQL would otherwise search pg_temp first,
-- where every login may create tables.

-- Records the row of a row trigger. An UPDATE may change the primary key; the old id is then recorded too.
create function hotel_api_note_hotel() returns trigger
  language plpgsql security definer set search_path from current as $$
declare
  moved constant boolean := old.id is distinct from new.id;
begin
  if moved and tg_op <> 'INSERT' then
    insert into hotel_api_queue (kind, ids, size, moves) values ('hotels', array[old.id], 1, true);
  end if;
  if tg_op <> 'DELETE' then
    insert into hotel_api_queue (kind, ids, channel_ids, registry_ids, size, moves)
      values ('hotels', array[new.id], array[new.channel_id], array[new.registry_id], 1, moved);
  end if;
  return null;
end $$;

-- Expects a transition table named "changed" with the new rows; trigger argument: moves.
create function hotel_api_note_hotels() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_queue (kind, ids, channel_ids, registry_ids, size, moves)
    select 'hotels', array_agg(id), array_agg(channel_id), array_agg(registry_id), count(*), tg_argv[0]::boolean
    from (select id, channel_id, registry_id, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

-- Does the same for deleted rows.
create function hotel_api_note_deleted_hotels() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_queue (kind, ids, size, moves)
    select 'hotels', array_agg(id), count(*), true
    from (select id, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

create function hotel_api_note_keys() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_queue (kind, ids, size)
    select 'keys', array_agg(encode(key_sha256, 'hex')), count(*)
    from (select key_sha256, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

create function hotel_api_note_members() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_queue (kind, collection_id, ids, size)
    select 'members', collection_id, array_agg(hotel_id), count(*)
    from (
      select collection_id, hotel_id, (row_number() over (partition by collection_id) - 1) / 1000 as chunk from changed
    ) as numbered
    group by collection_id, chunk;
  return null;
end $$;

create function hotel_api_note_collections() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_queue (kind, ids, size)
    select 'collections', array_agg(id), count(*)
    from (select id, (row_number() over () - 1) / 1000 as chunk from changed) as numbered
    group by chunk;
  return null;
end $$;

-- Records the row of a row trigger of another table than hotels.
create function hotel_api_note_row() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  if tg_argv[0] = 'keys' then
    insert into hotel_api_queue (kind, ids, size)
      select 'keys', array_agg(encode(sha256, 'hex')), count(*)
      from (values (old.key_sha256), (new.key_sha256)) as both_rows (sha256) where sha256 is not null;
  elsif tg_argv[0] = 'members' then
    insert into hotel_api_queue (kind, collection_id, ids, size)
      select 'members', collection_id, array[hotel_id], 1
      from (values (old.collection_id, old.hotel_id), (new.collection_id, new.hotel_id))
        as both_rows (collection_id, hotel_id)
      where collection_id is not null;
  else
    insert into hotel_api_queue (kind, ids, size)
      select 'collections', array_agg(id), count(*) from (values (old.id), (new.id)) as both_rows (id) where id is not null;
  end if;
  return null;
end $$;

-- Trigger argument: the kind.
create function hotel_api_note_truncate() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  insert into hotel_api_queue (kind, size, moves) values (tg_argv[0], 0, true);
  return null;
end $$;

-- Rows may be cached before their change is in the log. A transaction that changes them is therefore durable before it is
-- visible, whatever synchronous_commit says. The trigger fires at the end of the transaction, which may set it after its
-- last change.
create function hotel_api_commit_durably() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  return null;
end $$;
create constraint trigger hotel_api_durable after insert on hotel_api_queue deferrable initially deferred
  for each row execute function hotel_api_commit_durably();

create trigger hotel_api_renamed after update on hotels
  for each row when (old.id is distinct from new.id) execute function hotel_api_note_hotel();
create trigger hotel_api_inserted after insert on hotels referencing new table as changed
  for each statement execute function hotel_api_note_hotels('true');
create trigger hotel_api_updated after update on hotels referencing new table as changed
  for each statement execute function hotel_api_note_hotels('false');
create trigger hotel_api_deleted after delete on hotels referencing old table as changed
  for each statement execute function hotel_api_note_deleted_hotels();
create trigger hotel_api_truncated after truncate on hotels
  for each statement execute function hotel_api_note_truncate('all_hotels');

-- The other tables are small, and an UPDATE may change any of their columns: old and new rows are both recorded.
do $do$
declare
  kind text;
  event text;
  tables constant text[] := array['api_keys', 'collection_hotels', 'collections'];
  kinds constant text[] := array['keys', 'members', 'collections'];
  named text;
begin
  for i in 1..3 loop
    named := tables[i];
    kind := kinds[i];
    foreach event in array array['inserted insert new', 'updated update new', 'replaced update old', 'deleted delete old'] loop
      execute format(
        'create trigger hotel_api_%s after %s on %I referencing %s table as changed
           for each statement execute function hotel_api_note_%s()',
        split_part(event, ' ', 1), split_part(event, ' ', 2), named, split_part(event, ' ', 3), kind
      );
    end loop;
    execute format(
      'create trigger hotel_api_truncated after truncate on %I
         for each statement execute function hotel_api_note_truncate(%L)',
      named, case kind when 'keys' then 'all_keys' else 'all_collections' end
    );
    execute format(
      'create trigger hotel_api_replicated after insert or update or delete on %I
         for each row execute function hotel_api_note_row(%L)',
      named, kind
    );
  end loop;
end $do$;
create trigger hotel_api_replicated after insert or update or delete on hotels
  for each row execute function hotel_api_note_hotel();

-- Triggers that fire in other sessions than they should. Sessions with session_replication_role = replica fire none of the
-- ordinary triggers: the apply of logical replication, some restores. Apply fires no statement triggers except for TRUNCATE.
-- The triggers `hotel_api_replicated` fire in such sessions only, so a change is recorded once, and ordinary statements do
-- not run a trigger per row. DISABLE TRIGGER ALL and ENABLE TRIGGER ALL, as of pg_restore, lose all of that.
create view hotel_api_wrong_triggers as
  select tgrelid::regclass as "table", tgname as trigger, firing
  from pg_trigger,
    lateral (select case
      when tgname = 'hotel_api_replicated' then 'replica'
      when tgname in ('hotel_api_truncated', 'hotel_api_durable') then 'always'
      else ''
    end) as wanted (firing)
  where tgrelid in (
      'hotels'::regclass, 'api_keys'::regclass, 'collection_hotels'::regclass, 'collections'::regclass,
      'hotel_api_queue'::regclass
    ) and starts_with(tgname, 'hotel_api_')
    and tgenabled <> case firing when 'replica' then 'R' when 'always' then 'A' else 'O' end;

-- Locks writers out of the tables whose triggers it corrects, until the end of the transaction.
create function hotel_api_correct_triggers() returns void
  language plpgsql security definer set search_path from current as $$
declare
  wrong record;
begin
  for wrong in select * from hotel_api_wrong_triggers loop
    execute format('alter table %s enable %s trigger %I', wrong."table", wrong.firing, wrong.trigger);
  end loop;
end $$;
select hotel_api_correct_triggers();

-- Makes every cache read everything again, and mirrors begin again: for rows that were written with triggers disabled.
create function hotel_api_invalidate() returns void
  language sql volatile security definer set search_path from current as $$
  select hotel_api_correct_triggers();
  insert into hotel_api_queue (kind, size, moves)
    select kind, 0, true from unnest(array['all_hotels', 'all_keys', 'all_collections']) as kind
$$;

revoke all on function
  hotel_api_note_hotel(), hotel_api_note_hotels(), hotel_api_note_deleted_hotels(), hotel_api_note_keys(),
  hotel_api_note_members(), hotel_api_note_collections(), hotel_api_note_row(), hotel_api_note_truncate(),
  hotel_api_commit_durably(), hotel_api_correct_triggers(), hotel_api_invalidate()
from public;
