-- The service assumes this role on every connection, whatever its login is. The role reads, and lets the sequencer work and
-- counts the use of keys by functions. It cannot write a hotel or a key. Roles belong to the whole server, so the migration of another database
-- may have created the role already.
do $$
begin
  if not exists (select from pg_roles where rolname = 'hotel_api_serve') then
    create role hotel_api_serve nologin;
  end if;
exception when duplicate_object or unique_violation then
  null;
end $$;

do $$
begin
  -- functions that another login creates here could be called with the rights of the owner
  execute format('revoke create on schema %I from public', current_schema());
  execute format('grant usage on schema %I to hotel_api_serve', current_schema());
  if not pg_has_role(current_user, 'hotel_api_serve', 'member') then
    execute format('grant hotel_api_serve to %I', current_user);
  end if;
end $$;

-- From PostgreSQL 16 on, a login that creates a role may grant it, but not assume it. The login grants itself that right,
-- because it may also be the login of the service. A login that may not grant the role leaves it to another.
do $$
begin
  if current_setting('server_version_num')::integer >= 160000 then
    if not pg_has_role(current_user, 'hotel_api_serve', 'set') then
      execute format('grant hotel_api_serve to %I with inherit false, set true', current_user);
    end if;
  end if;
exception when insufficient_privilege then
  null;
end $$;

grant select on
  hotels, api_keys, collections, collection_hotels, schema_migrations, hotel_api_queue, hotel_api_log,
  hotel_api_wrong_triggers
to hotel_api_serve;
grant usage on type hotel_api_state to hotel_api_serve;
grant execute on function
  hotel_api_ranges(pg_snapshot, pg_snapshot), hotel_api_poll(bigint, bigint, integer), hotel_api_sequence(),
  hotel_api_history(), hotel_api_begin_history(text, bigint, bigint), hotel_api_count_usage(json)
to hotel_api_serve;
