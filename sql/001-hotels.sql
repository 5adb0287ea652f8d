-- Hotels: one column a wire field. Other systems write this table with plain SQL.
-- Each constraint refuses what the public contract cannot say, so a row that is stored can be served.

-- Versions come from one sequence. A trigger draws them while the row is locked, so that for one hotel
-- a later commit always carries a larger version. A column default would ask the writer for rights on the sequence.
create sequence hotel_api_versions;

-- Constraints call these with the rights of the writer.
create function hotel_images_are_valid(images jsonb) returns boolean
  language sql immutable strict parallel safe
  return jsonb_typeof(images) = 'array'
    and jsonb_array_length(images) <= 3
    and not jsonb_path_exists(images, 'strict $[*] ? (@.type() != "object")')
    and not jsonb_path_exists(images, 'lax $[*] ? (!exists(@.url) || !(@.url.type() == "string"))')
    and not jsonb_path_exists(images, 'lax $[*] ? (!(@.url like_regex "^https?:" flag "i"))')
    and not jsonb_path_exists(images, 'lax $[*] ? (@.caption.type() != "string" && @.caption.type() != "null")');

create function hotel_date_can_be_shown(day date) returns boolean
  language sql immutable parallel safe
  return day is null or day between date '0001-01-01' and date '9999-12-31';

-- Clients show these as links and images, where a URI of another scheme may run a script.
create function hotel_uri_is_valid(uri text) returns boolean
  language sql immutable parallel safe
  return uri is null or (char_length(uri) <= 2048 and uri ~* '^https?:[^[:space:]]+$');

grant execute on function hotel_images_are_valid(jsonb), hotel_date_can_be_shown(date), hotel_uri_is_valid(text) to public;

create table hotels (
  id text primary key,
  name text not null,
  description text,
  address text,
  postal_code text,
  city text,
  country_code text,
  latitude double precision,
  longitude double precision,
  language text,
  star_rating numeric(2, 1),
  room_count integer,
  website_url text,
  email text,
  images jsonb not null default '[]',
  certified_from date,
  certified_until date,
  certification_url text,
  channel_id text unique,
  registry_id bigint unique,
  version bigint not null,
  constraint hotels_id_is_1_to_255_characters check (char_length(id) between 1 and 255),
  constraint hotels_channel_id_is_1_to_255_characters check (char_length(channel_id) between 1 and 255),
  constraint hotels_name_is_not_empty check (name <> ''),
  constraint hotels_country_code_is_iso_3166_alpha_2 check (country_code ~ '^[A-Z]{2}$'),
  constraint hotels_language_is_iso_639_1 check (language ~ '^[a-z]{2}$'),
  constraint hotels_latitude_is_in_degrees check (latitude between -90 and 90),
  constraint hotels_longitude_is_in_degrees check (longitude between -180 and 180),
  constraint hotels_star_rating_is_in_half_steps
    check (star_rating between 0 and 5 and star_rating * 2 = trunc(star_rating * 2)),
  constraint hotels_room_count_is_not_negative check (room_count >= 0),
  constraint hotels_website_url_is_a_uri check (hotel_uri_is_valid(website_url)),
  constraint hotels_certification_url_is_a_uri check (hotel_uri_is_valid(certification_url)),
  constraint hotels_email_is_an_address check (email ~ '^[^@[:space:]]+@[^@[:space:]]+$'),
  constraint hotels_images_are_at_most_three_with_url_and_caption check (hotel_images_are_valid(images)),
  constraint hotels_certified_from_can_be_shown check (hotel_date_can_be_shown(certified_from)),
  constraint hotels_certified_until_can_be_shown check (hotel_date_can_be_shown(certified_until))
);

-- Lists are ordered by id in byte order, whatever the collation of the database.
create unique index hotels_by_id_bytes on hotels (id collate "C");
