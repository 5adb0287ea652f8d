-- The service assumes this role on every connection, whatever it logs in as: it reads, and takes
-- changes off the queue through one function; it cannot write a hotel or a key.
-- Roles belong to the whole server, so another database of it may have made the role already.
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
  -- a login that makes functions here could offer them to those that have their owner's rights
  execute format('revoke create on schema %I from public', current_schema());
  execute format('grant usage on schema %I to hotel_api_serve', current_schema());
  if not pg_has_role(current_user, 'hotel_api_serve', 'member') then
    execute format('grant hotel_api_serve to %I', current_user);
  end if;
end $$;

grant select on hotels, api_keys, schema_migrations, hotel_api_changes to hotel_api_serve;
grant execute on function hotel_api_drain(integer, integer, integer) to hotel_api_serve;
