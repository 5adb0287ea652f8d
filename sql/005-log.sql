-- The log: every change in one order. It is the feed of the caches, what `GET /changes` reads, and the record of
-- memberships. It is append-only and is deleted at its old end. No row is ever updated, so a long snapshot of another
-- session (pg_dump) leaves no dead versions that a request or a poll would have to walk.
--
-- Each id takes one position. A row of n ids has the position of its last id; its first id is at position - n + 1. A row
-- without ids takes one position. Positions are given out after the change has committed, in one later transaction. A
-- snapshot that shows a position therefore shows every change up to it: a label is honest.

-- What the sequencer knows, written into the last row of each of its transactions.
create type hotel_api_state as (
  -- random name; no copy, dump or promoted replica of the database continues it
  history text,
  -- server, database and timeline on which the history began
  place text,
  -- every transaction that this snapshot shows is in the log, except for `pending`
  snapshot pg_snapshot,
  -- transactions of many hotels, covered by a row `all_hotels`; their ids follow. Of the first, those up to this number
  -- of the queue are done
  pending bigint[],
  pending_after bigint,
  -- rows up to these places are deleted: by transaction and number, and by position
  queue_from bigint,
  queue_from_number bigint,
  log_from bigint,
  -- positions before these are forgotten: mirrors at them begin again
  oldest bigint,
  oldest_of_collections bigint,
  -- number of hotel ids in the log since the history began
  ids bigint,
  -- The log shows hotels as they are certified on this day (UTC). While it takes in the hotels whose certification
  -- begins or ends between two days: these days, and the last id that was scanned; null: none are missing.
  day date,
  flips_from date,
  flips_to date,
  flips_after text
);

create table hotel_api_log (
  position bigint primary key,
  -- time at which it got its position, right behind the commit
  at timestamptz not null default clock_timestamp(),
  -- as in the queue; listed: hotels that mirrors must read again although caches know (behind `all_hotels`, and at
  -- midnight); drained: the last row of a transaction of the sequencer
  kind text not null check (kind in (
    'hotels', 'listed', 'keys', 'members', 'collections', 'all_hotels', 'all_keys', 'all_collections', 'drained'
  )),
  moves boolean not null default false,
  ids text[],
  channel_ids text[],
  registry_ids bigint[],
  collection_id text,
  -- Identifies the row among those that had the same position in a lost future. An older data folder gives out the numbers of
  -- transactions again too, so the upper half is random. The lower half differs from xmin after a restore.
  transaction bigint not null
    default ((random() * 2147483647)::bigint << 32) + (pg_current_xact_id()::text::bigint & 4294967295),
  state hotel_api_state,
  check ((kind = 'drained') = (state is distinct from null))
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table hotel_api_log
  alter column ids set storage external,
  alter column channel_ids set storage external,
  alter column registry_ids set storage external;

-- Its lock orders the transactions of the sequencer. It needs rights, unlike an advisory lock. A view, because VACUUM and
-- ANALYZE lock tables, and an ANALYZE does so until its transaction ends.
create view hotel_api_sequencer as select;

-- The secret that only the instances know. It signs the values of keys in Redis. Each history has its own.
create table hotel_api_secrets (
  secret bytea not null check (octet_length(secret) = 32),
  is_the_only_row boolean primary key default true check (is_the_only_row)
);

-- Draws 488 random bits from the server's generator.
create function hotel_api_draw_secret() returns bytea language sql volatile
  return sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
      || uuid_send(gen_random_uuid())
  );

-- Identifies this database among its copies: its number on the server, the server's identifier, and the timeline. A
-- managed server may hide some of them.
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

-- Ranges of transactions, both ends included, that finished between two snapshots. Rows of transactions that are still
-- running are never touched, however many they are. (PgQ reads its queue by snapshots in the same way.)
create function hotel_api_ranges(before pg_snapshot, after pg_snapshot) returns table (low bigint, high bigint)
  language sql stable as $$
  select xid::text::bigint, xid::text::bigint
  from pg_snapshot_xip(before) as xid where pg_visible_in_snapshot(xid, after)
  union all
  select low, high
  from (
    select bound + 1, lead(bound, 1, pg_snapshot_xmax(after)::text::bigint) over (order by bound) - 1
    from (
      select pg_snapshot_xmax(before)::text::bigint - 1
      union all
      select xid::text::bigint from pg_snapshot_xip(after) as xid where xid >= pg_snapshot_xmax(before)
    ) as bounds (bound)
  ) as gaps (low, high)
  where low <= high
$$;

-- Rows of the queue of the transactions that finished between two snapshots. `offset` keeps PostgreSQL from walking the
-- whole queue and looking up the range of each row.
create function hotel_api_queued(before pg_snapshot, after pg_snapshot) returns setof hotel_api_queue
  language sql stable as $$
  select queued.*
  from hotel_api_ranges(before, after),
    lateral (select * from hotel_api_queue where transaction between low and high offset 0) as queued
$$;

-- Waits until no other sequencer works. Statements of the caller behind it see all that the others have done: each has a
-- snapshot of its own, which read committed gives. A transaction that had changed hotels before would count as finished.
create function hotel_api_lock_sequencer() returns void
  language plpgsql security definer set search_path from current as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    or pg_current_xact_id_if_assigned() is not null then
    raise exception 'the sequencer needs a read committed transaction of its own' using errcode = 'invalid_transaction_state';
  end if;
  lock table hotel_api_sequencer in exclusive mode;
  -- positions that were given out must not be given out again after a crash
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end $$;

-- Appends a row without ids and returns its position.
create function hotel_api_append(last bigint, what text, moves boolean default false) returns bigint
  language sql volatile security definer set search_path from current as $$
  insert into hotel_api_log (position, kind, moves) values (last + 1, what, moves) returning position
$$;

-- Ends a transaction of the sequencer. Returns the position of its last row.
create function hotel_api_append_state(last bigint, state hotel_api_state) returns bigint
  language sql volatile security definer set search_path from current as $$
  insert into hotel_api_log (position, kind, state) values (last + 1, 'drained', state) returning position
$$;

-- Begins another history; the caller holds the lock. Everything that was cached or mirrored is invalid.
create function hotel_api_new_history() returns bigint
  language plpgsql security definer set search_path from current as $$
declare
  last bigint := (select coalesce(max(position), 0) from hotel_api_log);
  s hotel_api_state;
begin
  delete from hotel_api_secrets;
  insert into hotel_api_secrets values (hotel_api_draw_secret());
  s.history := translate(encode(substr(hotel_api_draw_secret(), 1, 9), 'base64'), '+/', '-_');
  s.place := hotel_api_place();
  s.snapshot := pg_current_snapshot();
  -- a restored queue may have the numbers of transactions that are still to come
  delete from hotel_api_queue
    where pg_visible_in_snapshot(transaction::text::xid8, s.snapshot)
      or transaction > pg_snapshot_xmax(s.snapshot)::text::bigint + 1000000;
  s.pending := '{}';
  s.queue_from := 0;
  s.queue_from_number := 0;
  s.log_from := (select coalesce(min(position), 1) - 1 from hotel_api_log);
  last := hotel_api_append(last, 'all_hotels', true);
  last := hotel_api_append(last, 'all_keys');
  last := hotel_api_append(last, 'all_collections');
  s.oldest := last;
  s.oldest_of_collections := last;
  s.ids := 0;
  s.day := (now() at time zone 'UTC')::date;
  return hotel_api_append_state(last, s);
end $$;

-- The sequencer: gives positions to everything that has committed, and deletes old rows. Any instance may call it. Its
-- transactions follow each other by the lock, each with snapshots that show the one before. Returns the last position.
--
-- More than 20,000 changed hotels at once are not walked: one row `all_hotels` invalidates them for the caches, and their
-- ids follow for the mirrors in pieces, behind whatever has changed since. Where they are more than the log remembers, or
-- where as many rows wait, as after a long time without instances, mirrors begin again.
create function hotel_api_sequence() returns bigint
  language plpgsql security definer set search_path from current
  -- without statistics, PostgreSQL would read tables whole, sort them, or compile the queries
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashagg = off as $$
#variable_conflict use_column
declare
  -- ids of hotels at once, and in one row
  max_piece constant bigint := 20000;
  max_row constant integer := 1000;
  -- keys that are listed at once
  max_keys constant bigint := 100000;
  -- hotels that are scanned for the midnight at once; rows of the queue, and positions, that are deleted at once
  max_scanned constant integer := 50000;
  max_deleted integer := 300;
  -- age at which rows of the log are deleted; none is deleted that an instance may still be at
  max_age constant interval := interval '30 days';
  min_age constant interval := interval '10 minutes';
  last_before_lock constant bigint := (select max(position) from hotel_api_log);
  newest record;
  last bigint;
  s hotel_api_state;
  shown pg_snapshot;
  today date;
  hotels_are_locked boolean := false;
  found record;
  piece record;
  hotels_at_once boolean;
  finished_before bigint;
  max_ids bigint;
  deleted_to bigint;
begin
  perform hotel_api_lock_sequencer();
  -- read behind the lock, so that the day goes back only with the clock
  today := (clock_timestamp() at time zone 'UTC')::date;
  select position, state, xmin <> transaction::text::xid8::xid as is_restored into newest
    from hotel_api_log order by position desc limit 1;
  s := newest.state;
  if newest.position is null or newest.is_restored or s.place is distinct from hotel_api_place()
    or not exists (select from hotel_api_secrets) then
    return hotel_api_new_history();
  end if;
  last := newest.position;

  select pg_current_snapshot() into shown;
  -- a million ids, or four times the number of hotels; it is an estimate, or -1 without statistics
  max_ids := greatest(1000000, 4 * (select reltuples::bigint from pg_class where oid = 'hotels'::regclass));
  -- one pass, because a large transaction of single statements has as many rows as hotels
  select coalesce(sum(rows), 0) as rows, coalesce(bool_or(moves) or sum(rows) > max_ids, false) as moves,
      coalesce(sum(size) filter (where kind = 'hotels'), 0) as hotels,
      array_agg(transaction order by transaction) filter (where kind = 'hotels' and size <= max_row) as small,
      array_agg(transaction order by transaction) filter (where kind = 'hotels' and size > max_row) as large,
      sum(size) filter (where kind = 'keys') as keys,
      sum(size) filter (where kind in ('members', 'collections')) as collections,
      -- beyond what is listed or remembered, all of them may have changed
      sum(rows) > max_ids or bool_or(kind = 'all_hotels') as all_hotels,
      sum(rows) > max_ids or bool_or(kind = 'all_keys')
        or sum(size) filter (where kind = 'keys') > max_keys as all_keys,
      sum(rows) > max_ids or bool_or(kind = 'all_collections')
        or sum(size) filter (where kind in ('members', 'collections')) > max_ids as all_collections
    into found
    from (
      select transaction, kind, count(*) as rows, sum(size) as size, bool_or(moves) as moves
      from (select * from hotel_api_queued(s.snapshot, shown) limit max_ids + 1) as first_rows
      group by transaction, kind
    ) as transactions;

  -- midnight waits for an ALTER TABLE, and the log does not
  if s.day <> today or s.flips_after is not null then
    begin
      lock table hotels in access share mode nowait;
    exception when lock_not_available then
      hotels_are_locked := true;
      today := s.day;
    end;
  end if;

  -- Rows of aborted transactions alone change nothing. A call that has waited for another leaves the rest to the next one:
  -- many instances would else wait for a piece of each, and not poll meanwhile.
  if found.rows = 0 and (last > last_before_lock
    or cardinality(s.pending) = 0 and s.day = today and (s.flips_after is null or hotels_are_locked)) then
    return last;
  end if;

  -- keys first: a revoked key never waits behind hotels
  if found.all_keys then
    last := hotel_api_append(last, 'all_keys');
  elsif found.keys > 0 then
    insert into hotel_api_log (position, kind, ids)
      select last + sum(count(*)) over (order by chunk), 'keys', array_agg(id)
      from (
        select id, (row_number() over () - 1) / max_row as chunk
        from hotel_api_queued(s.snapshot, shown), unnest(ids) as id
        where kind = 'keys'
      ) as changed
      group by chunk;
    select max(position) into last from hotel_api_log;
  end if;
  if found.all_collections then
    last := hotel_api_append(last, 'all_collections');
    s.oldest_of_collections := last;
  elsif found.collections > 0 then
    insert into hotel_api_log (position, kind, collection_id, ids)
      select last + sum(count(*)) over (order by kind, collection_id, chunk), kind, collection_id, array_agg(id)
      from (
        select kind, collection_id, id, (row_number() over (partition by kind, collection_id) - 1) / max_row as chunk
        from hotel_api_queued(s.snapshot, shown), unnest(ids) as id
        where kind in ('members', 'collections')
      ) as changed
      group by kind, collection_id, chunk;
    select max(position) into last from hotel_api_log;
  end if;
  if found.all_hotels or found.hotels > max_ids then
    -- mirrors begin again, with all of this
    last := hotel_api_append(last, 'all_hotels', found.moves);
    s.oldest := last;
    s.pending := '{}';
    s.pending_after := null;
  elsif found.hotels > 0 then
    hotels_at_once := found.hotels <= max_piece;
    if not hotels_at_once then
      last := hotel_api_append(last, 'all_hotels', found.moves);
    end if;
    -- small transactions beside a large one are listed at once
    insert into hotel_api_log (position, kind, moves, ids, channel_ids, registry_ids)
      select last + sum(count(*)) over (order by moves, chunk), case when hotels_at_once then 'hotels' else 'listed' end,
        moves, array_agg(id), array_agg(channel_id), array_agg(registry_id)
      from (
        select moves, id, channel_id, registry_id, (row_number() over (partition by moves) - 1) / max_row as chunk
        from unnest(case when hotels_at_once then found.small || found.large else found.small end) as listed (transaction),
          lateral (
            select moves, ids, channel_ids, registry_ids from hotel_api_queue
            where transaction = listed.transaction and kind = 'hotels' offset 0
          ) as rows,
          unnest(ids, channel_ids, registry_ids) as changed (id, channel_id, registry_id)
      ) as changed
      group by moves, chunk;
    select max(position) into last from hotel_api_log;
    s.ids := s.ids + found.hotels;
    if not hotels_at_once then
      s.pending := s.pending || found.large;
    end if;
  end if;

  if cardinality(s.pending) > 0 then
    with piece as (
      select number, ids from (
        select number, ids, sum(size) over (order by number) - size as before
        from (
          select number, ids, size from hotel_api_queue
          where transaction = s.pending[1] and number > coalesce(s.pending_after, 0) and kind = 'hotels'
          order by number limit 2000
        ) as first_rows
      ) as summed
      where before < max_piece
    ), listed as (
      insert into hotel_api_log (position, kind, ids)
        select last + sum(count(*)) over (order by chunk), 'listed', array_agg(id)
        from (select id, (row_number() over () - 1) / max_row as chunk from piece, unnest(ids) as id) as numbered
        group by chunk
    )
    select max(number) as number into piece from piece;
    s.pending_after := piece.number;
    if piece.number is null or not exists (
      select from hotel_api_queue where transaction = s.pending[1] and number > piece.number and kind = 'hotels'
    ) then
      s.pending := s.pending[2:];
      s.pending_after := null;
    end if;
    select max(position) into last from hotel_api_log;
  end if;

  if s.day <> today then
    s.flips_from := least(s.flips_from, s.day, today);
    s.flips_to := greatest(s.flips_to, s.day, today);
    s.flips_after := '';
    s.day := today;
  end if;
  if s.flips_after is not null and not hotels_are_locked then
    with scanned as materialized (
      select id, certified_from <= certified_until and (
          certified_from > s.flips_from and certified_from <= s.flips_to
          or certified_until >= s.flips_from and certified_until < s.flips_to
        ) as flips
      from hotels where id collate "C" > s.flips_after order by id collate "C" limit max_scanned
    ), listed as (
      insert into hotel_api_log (position, kind, ids)
        select last + sum(count(*)) over (order by chunk), 'listed', array_agg(id)
        from (select id, (row_number() over () - 1) / max_row as chunk from scanned where flips) as numbered
        group by chunk
    )
    select count(*) as hotels, count(*) filter (where flips) as flipped, max(id collate "C") as id into piece from scanned;
    s.flips_after := piece.id;
    s.ids := s.ids + piece.flipped;
    if piece.hotels < max_scanned then
      s.flips_from := null;
      s.flips_to := null;
      s.flips_after := null;
    end if;
    select max(position) into last from hotel_api_log;
  end if;

  s.snapshot := shown;
  finished_before := least(pg_snapshot_xmin(shown)::text::bigint, (select min(xid) from unnest(s.pending) as xid));
  max_deleted := greatest(max_deleted, least(2 * found.rows, 10000));
  with deleted as (
    delete from hotel_api_queue
    where ctid = any(array(
      select ctid from hotel_api_queue
      where (transaction, number) > (s.queue_from, s.queue_from_number) and transaction < finished_before
      order by transaction, number limit max_deleted
    ))
    returning transaction, number
  )
  select count(*) over () as rows, transaction, number into piece from deleted order by transaction desc, number desc limit 1;
  if piece.rows = max_deleted then
    s.queue_from := piece.transaction;
    s.queue_from_number := piece.number;
  else
    s.queue_from := finished_before;
    s.queue_from_number := 0;
  end if;

  -- whole transactions of the sequencer, at least one
  deleted_to := s.log_from;
  for piece in
    select position, at, (state).ids from hotel_api_log where position > s.log_from and kind = 'drained'
      order by position limit max_deleted
  loop
    exit when deleted_to > s.log_from + max_deleted or piece.at > now() - min_age
      or piece.position > s.oldest and piece.at > now() - max_age and s.ids - piece.ids <= max_ids;
    deleted_to := piece.position;
  end loop;
  if deleted_to > s.log_from then
    delete from hotel_api_log where position > s.log_from and position <= deleted_to;
    s.log_from := deleted_to;
    s.oldest := greatest(s.oldest, deleted_to);
    s.oldest_of_collections := greatest(s.oldest_of_collections, deleted_to);
  end if;
  return hotel_api_append_state(last, s);
end $$;

-- What an instance asks for again and again, in one snapshot: the rows after a position, at most max_rows of them, in the
-- first columns of each row (or the only one) the state. `transaction_of_after` is that of the row at `after`: if another
-- row or none is there, the database has gone back. `after` null: no rows. Rows that caches need not know are left out.
create function hotel_api_poll(after bigint, transaction_of_after bigint, max_rows integer)
  returns table (
    history text, last bigint, last_transaction bigint,
    -- changes have committed that are not in the log
    is_unread boolean,
    -- the sequencer has something to do
    is_due boolean,
    -- null: the row at `after` is forgotten, so the instance begins anew
    is_continued boolean,
    "position" bigint, transaction bigint, kind text, moves boolean, ids text[], channel_ids json,
    registry_ids json, collection_id text
  )
  language plpgsql stable security definer set search_path from current
  set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  known pg_snapshot;
  shown constant pg_snapshot := pg_current_snapshot();
  log_from bigint;
begin
  if pg_is_in_recovery() then
    raise exception 'this server is a replica' using errcode = 'read_only_sql_transaction';
  end if;
  -- the statements of a stable function share one snapshot; several small ones take half the time of one
  select position, transaction, (state).history, (state).snapshot, (state).log_from,
      xmin <> transaction::text::xid8::xid or cardinality((state).pending) > 0 or (state).flips_after is not null
        or (state).day <> (clock_timestamp() at time zone 'UTC')::date
    into last, last_transaction, history, known, log_from, is_due
    from hotel_api_log order by position desc limit 1;
  if pg_snapshot_xmin(known) = pg_snapshot_xmax(known) and pg_snapshot_xmin(shown) = pg_snapshot_xmax(shown) then
    -- no transaction was running at either time: one range, without the cost of finding it
    is_unread := exists (
      select from hotel_api_queue
      where transaction between pg_snapshot_xmax(known)::text::bigint and pg_snapshot_xmax(shown)::text::bigint - 1
    );
  else
    is_unread := exists (
      select from hotel_api_ranges(known, shown) as g,
        lateral (select from hotel_api_queue as q where q.transaction between g.low and g.high limit 1) as queued
    );
  end if;
  -- nothing is known of a log that is lost, or whose end is
  is_due := is_due is not false or is_unread or history is null;
  is_continued := true;
  if after is null then
    -- a copy begins a history of its own before anything is read from it
    is_due := is_due or not exists (select from hotel_api_secrets)
      or hotel_api_place() is distinct from (select (state).place from hotel_api_log order by position desc limit 1);
    return next;
    return;
  elsif after = last and transaction_of_after = last_transaction then
    return next;
    return;
  end if;
  if not exists (select from hotel_api_log where position = after and transaction = transaction_of_after) then
    is_continued := case when after > log_from then false end;
  end if;
  return query
    select history, last, last_transaction, is_unread, is_due, is_continued, r.position, r.transaction,
      r.kind, r.moves, r.ids,
      to_json(r.channel_ids), to_json(r.registry_ids::text[]), r.collection_id
    from (select) as once
    left join lateral (
      select * from hotel_api_log
      where position > after and kind not in ('listed', 'drained') order by position limit max_rows
    ) as r on true
    order by r.position;
end $$;

-- For an instance that begins to follow a history.
create function hotel_api_history()
  returns table (history text, "position" bigint, transaction bigint, secret bytea)
  language sql stable security definer set search_path from current as $$
  select (l.state).history, l.position, l.transaction, s.secret
  from (select * from hotel_api_log order by position desc limit 1) as l, hotel_api_secrets as s
$$;

-- Begins another history, unless the known one has the row with this position and transaction, or is over already. Bounded
-- by the stored state: a caller can make caches cold, and nothing else.
create function hotel_api_begin_history(known text, after bigint, transaction_of_after bigint) returns void
  language plpgsql security definer set search_path from current as $$
begin
  perform hotel_api_lock_sequencer();
  if exists (
      select from (select (state).* from hotel_api_log order by position desc limit 1) as s
      where s.history = known and after > s.log_from
    ) and not exists (select from hotel_api_log where position = after and transaction = transaction_of_after) then
    perform hotel_api_new_history();
  end if;
end $$;

select hotel_api_new_history();

revoke all on function
  hotel_api_draw_secret(), hotel_api_place(), hotel_api_append(bigint, text, boolean),
  hotel_api_append_state(bigint, hotel_api_state), hotel_api_new_history(), hotel_api_sequence(),
  hotel_api_poll(bigint, bigint, integer), hotel_api_history(), hotel_api_begin_history(text, bigint, bigint),
  hotel_api_ranges(pg_snapshot, pg_snapshot), hotel_api_queued(pg_snapshot, pg_snapshot), hotel_api_lock_sequencer()
from public;
