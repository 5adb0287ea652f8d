-- Hotels: one column per field of the API. Other systems write this table with plain SQL.
-- Stored means valid: the constraints reject what the schemas of the public document reject. One invalid hotel would make
-- generated clients reject the whole page that contains it.

-- Constraints call these functions with the rights of the writer. src/hotels/valid-values.ts has the same patterns.

create function hotel_date_can_be_shown(day date) returns boolean
  language sql immutable parallel safe
  return day is null or day between date '0001-01-01' and date '9999-12-31';

-- An http or https URI by RFC 3986, in ASCII, whose host is a name or an IPv4 address. Clients show these as links and
-- images, where a URI of another scheme may run a script.
create function hotel_uri_is_valid(uri text) returns boolean
  language sql immutable parallel safe
  return uri is null or (
    char_length(uri) <= 2048
    and uri ~ '^[Hh][Tt][Tt][Pp][Ss]?://(?:[A-Za-z0-9._~!$&''()*+,;=%:-]*@)?[A-Za-z0-9._~!$&''()*+,;=%-]+(?::[0-9]{0,5})?(?:[/?][A-Za-z0-9._~!$&''()*+,;=%:@/?-]*)?(?:#[A-Za-z0-9._~!$&''()*+,;=%:@/?-]*)?$'
    -- a separate expression: as part of the first it would slow it down by half
    and (strpos(uri, '%') = 0 or uri !~ '%(?![0-9A-Fa-f]{2})')
  );

-- An address as HTML forms accept it, with a dot in the domain. The format `email` of JSON Schema allows dots only
-- between other characters.
create function hotel_email_is_valid(email text) returns boolean
  language sql immutable parallel safe
  return email is null or (char_length(email) <= 254 and email ~
    '^[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$');

-- Null means that there is no such image.
create function hotel_image_is_valid(image jsonb) returns boolean
  language sql immutable parallel safe
  return image is null or (
    coalesce(jsonb_typeof(image -> 'url') = 'string', false)
    and hotel_uri_is_valid(image ->> 'url')
    and coalesce(jsonb_typeof(image -> 'caption') in ('string', 'null'), true)
  );

create function hotel_images_are_valid(images jsonb) returns boolean
  language sql immutable strict parallel safe
  return jsonb_typeof(images) = 'array'
    and images -> 3 is null
    and hotel_image_is_valid(images -> 0)
    and hotel_image_is_valid(images -> 1)
    and hotel_image_is_valid(images -> 2);

-- JSON clients that read numbers as doubles round larger numbers.
create function hotel_registry_id_is_exact(registry_id bigint) returns boolean
  language sql immutable parallel safe
  return registry_id is null or registry_id between -9007199254740991 and 9007199254740991;

-- The JSON of the API. The limit bounds a page of 1000 hotels to 64 MiB.
create function hotel_json_fits(
  id text, name text, description text, address text, postal_code text, city text, country_code text,
  latitude double precision, longitude double precision, language text, star_rating numeric, room_count integer,
  website_url text, email text, images jsonb, certified_from date, certified_until date, certification_url text,
  channel_id text, registry_id bigint
) returns boolean
  language sql immutable parallel safe
  return octet_length((
    select row_to_json(hotel)::text from (
      select id, name, description, address, postal_code, city, country_code, latitude, longitude, language, star_rating,
        room_count, website_url, email, images, false as certified, certified_from, certified_until, certification_url,
        channel_id, registry_id
    ) as hotel
  )) <= 65536;

grant execute on function
  hotel_date_can_be_shown(date), hotel_uri_is_valid(text), hotel_email_is_valid(text), hotel_image_is_valid(jsonb),
  hotel_images_are_valid(jsonb), hotel_registry_id_is_exact(bigint), hotel_json_fits
to public;

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
  constraint hotels_id_is_1_to_255_characters check (char_length(id) between 1 and 255),
  constraint hotels_channel_id_is_1_to_255_characters check (char_length(channel_id) between 1 and 255),
  -- in a path they name the folder or the one above, percent-encoded too, so no client could request the hotel
  constraint hotels_id_is_no_dot_segment check (id not in ('.', '..')),
  constraint hotels_channel_id_is_no_dot_segment check (channel_id not in ('.', '..')),
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
  constraint hotels_email_is_an_address check (hotel_email_is_valid(email)),
  constraint hotels_images_are_at_most_three_with_url_and_caption check (hotel_images_are_valid(images)),
  constraint hotels_registry_id_is_exact_in_json check (hotel_registry_id_is_exact(registry_id)),
  constraint hotels_certified_from_can_be_shown check (hotel_date_can_be_shown(certified_from)),
  constraint hotels_certified_until_can_be_shown check (hotel_date_can_be_shown(certified_until)),
  -- JSON needs at most six bytes for one, and other constraints bound the other columns: texts of 9000 bytes fit always
  constraint hotels_json_is_at_most_64_kib check (
    octet_length(name) + coalesce(octet_length(description), 0) + coalesce(octet_length(address), 0)
      + coalesce(octet_length(postal_code), 0) + coalesce(octet_length(city), 0) + octet_length(images::text) <= 9000
    or hotel_json_fits(id, name, description, address, postal_code, city, country_code, latitude, longitude, language,
      star_rating, room_count, website_url, email, images, certified_from, certified_until, certification_url, channel_id,
      registry_id)
  )
);

-- Lists are ordered by id in byte order, whatever the collation of the database.
create unique index hotels_by_id_bytes on hotels (id collate "C");
