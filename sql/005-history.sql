-- What only the service knows: it signs the messages of the change feed, which any login may forge otherwise, and the
-- values of keys in Redis. A dump holds it too.
create table hotel_api_secrets (
  secret bytea not null check (octet_length(secret) = 32),
  is_the_only_row boolean primary key default true check (is_the_only_row)
);

-- 488 random bits of the server's own generator.
create function hotel_api_draw_secret() returns bytea language sql volatile
  return sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
      || uuid_send(gen_random_uuid())
  );
revoke all on function hotel_api_draw_secret() from public;

insert into hotel_api_secrets values (hotel_api_draw_secret());
grant select on hotel_api_secrets to hotel_api_serve;
