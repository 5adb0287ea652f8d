-- What the active invalidator asks for again and again, in one round trip: changes off the queue, for the caller's
-- transaction (rolled back, they are back), and the rows that they are about, read after them and so never older.
-- Each row holds one of the three. The hotels of more than max_hotels changes are not read; keys always are.
create function hotel_api_drain(max_rows integer, max_changes integer, max_hotels integer)
  returns table (change hotel_api_changes, hotel hotels, key api_keys)
  language plpgsql security definer set search_path from current as $$
declare
  hotel_ids text[] := '{}';
  key_hashes text[] := '{}';
begin
  for change in select * from hotel_api_drain_changes(max_rows, max_changes) loop
    return next;
    if change.kind in ('hotels', 'hotels_removed') then
      hotel_ids := hotel_ids || change.ids;
    elsif change.kind = 'keys' then
      key_hashes := key_hashes || change.ids;
    end if;
  end loop;
  -- each statement here sees all that was committed when it began
  hotel_ids := array(select distinct id from unnest(hotel_ids) as id);
  if cardinality(hotel_ids) between 1 and max_hotels then
    return query select null::hotel_api_changes, h, null::api_keys from hotels as h where h.id = any (hotel_ids);
  end if;
  if cardinality(key_hashes) > 0 then
    return query select null::hotel_api_changes, null::hotels, k from api_keys as k
      where k.key_sha256 = any (array(select decode(sha256, 'hex') from unnest(key_hashes) as sha256));
  end if;
end $$;
revoke all on function hotel_api_drain(integer, integer, integer) from public;
grant execute on function hotel_api_drain(integer, integer, integer) to hotel_api_serve;
