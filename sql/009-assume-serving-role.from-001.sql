-- From PostgreSQL 16 on, a login that makes a role may grant it, but not assume it. Where one login both migrates and
-- serves, it grants itself that right. A login that may not grant the role serves with another one, and needs nothing.
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
