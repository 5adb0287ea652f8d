-- What the active invalidator told last. It is written in the transaction that tells it, after the changes it is about
-- were committed; a replica replays commits in their order, so a snapshot that shows this row shows those changes too.
-- The name of a term is drawn at random: servers whose histories have parted never take one for the other.
create table hotel_api_told (
  term text not null,
  -- of what this term told of changes, from 1
  count bigint not null,
  is_the_only_row boolean primary key default true check (is_the_only_row)
);
insert into hotel_api_told values ('', 0);

create function hotel_api_tell(told_term text, told_count bigint) returns void
  language sql security definer set search_path from current as $$
  update hotel_api_told set term = told_term, count = told_count
$$;
revoke all on function hotel_api_tell(text, bigint) from public;
grant execute on function hotel_api_tell(text, bigint) to hotel_api_serve;
grant select on hotel_api_told to hotel_api_serve;
