-- Stored means valid: the table rejects what the schemas of the public document would reject, because one such row made
-- generated clients reject the whole page it stood on. src/hotels/valid-values.ts holds the same patterns.

-- An http or https URI by RFC 3986, in ASCII, whose host is a name or an IPv4 address.
create or replace function hotel_uri_is_valid(uri text) returns boolean
  language sql immutable parallel safe
  return uri is null or (
    char_length(uri) <= 2048
    and uri ~ '^[Hh][Tt][Tt][Pp][Ss]?://(?:[A-Za-z0-9._~!$&''()*+,;=%:-]*@)?[A-Za-z0-9._~!$&''()*+,;=%-]+(?::[0-9]{0,5})?(?:[/?][A-Za-z0-9._~!$&''()*+,;=%:@/?-]*)?(?:#[A-Za-z0-9._~!$&''()*+,;=%:@/?-]*)?$'
    -- apart, because it makes the first one half as fast again
    and (strpos(uri, '%') = 0 or uri !~ '%(?![0-9A-Fa-f]{2})')
  );

-- As HTML forms take it, with a dot in the domain. The format `email` of JSON Schema allows dots only between other
-- characters.
create function hotel_email_is_valid(email text) returns boolean
  language sql immutable parallel safe
  return email is null or (char_length(email) <= 254 and email ~
    '^[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$');

-- Null: there is no such image.
create function hotel_image_is_valid(image jsonb) returns boolean
  language sql immutable parallel safe
  return image is null or (
    coalesce(jsonb_typeof(image -> 'url') = 'string', false)
    and hotel_uri_is_valid(image ->> 'url')
    and coalesce(jsonb_typeof(image -> 'caption') in ('string', 'null'), true)
  );

create or replace function hotel_images_are_valid(images jsonb) returns boolean
  language sql immutable strict parallel safe
  return jsonb_typeof(images) = 'array'
    and images -> 3 is null
    and hotel_image_is_valid(images -> 0)
    and hotel_image_is_valid(images -> 1)
    and hotel_image_is_valid(images -> 2);

-- JSON clients that read numbers as doubles round what is larger.
create function hotel_registry_id_is_exact(registry_id bigint) returns boolean
  language sql immutable parallel safe
  return registry_id is null or registry_id between -9007199254740991 and 9007199254740991;

grant execute on function
  hotel_email_is_valid(text), hotel_image_is_valid(jsonb), hotel_registry_id_is_exact(bigint)
to public;

do $$
declare
  found record;
begin
  select count(*) as hotels, string_agg(format('%s (%s)', to_json(id), fields), ', ') filter (where place <= 20) as named
  into found
  from (
    select id, fields, row_number() over (order by id collate "C") as place
    from hotels, concat_ws(', ',
      case when not hotel_uri_is_valid(website_url) then 'website_url' end,
      case when not hotel_uri_is_valid(certification_url) then 'certification_url' end,
      case when not hotel_email_is_valid(email) then 'email' end,
      case when not hotel_images_are_valid(images) then 'images' end,
      case when not hotel_registry_id_is_exact(registry_id) then 'registry_id' end
    ) as fields
    where fields <> ''
  ) as judged;
  if found.hotels > 0 then
    raise exception '% hotel(s) hold values that clients would reject. Correct them, then migrate again. The first are: %',
      found.hotels, found.named;
  end if;
end $$;

alter table hotels
  drop constraint hotels_website_url_is_a_uri,
  drop constraint hotels_certification_url_is_a_uri,
  drop constraint hotels_email_is_an_address,
  drop constraint hotels_images_are_at_most_three_with_url_and_caption,
  add constraint hotels_website_url_is_a_uri check (hotel_uri_is_valid(website_url)),
  add constraint hotels_certification_url_is_a_uri check (hotel_uri_is_valid(certification_url)),
  add constraint hotels_email_is_an_address check (hotel_email_is_valid(email)),
  add constraint hotels_images_are_at_most_three_with_url_and_caption check (hotel_images_are_valid(images)),
  add constraint hotels_registry_id_is_exact_in_json check (hotel_registry_id_is_exact(registry_id));
