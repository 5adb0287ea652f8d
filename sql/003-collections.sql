-- Collections: a key of a collection sees the hotels of that collection and no other. A key of none sees all.
-- Other systems write these tables with plain SQL.

create table collections (
  id text primary key check (char_length(id) between 1 and 255),
  name text not null check (char_length(name) between 1 and 200)
);

-- A membership names a hotel by its id, whether or not that hotel exists. A collection may be written before its hotels
-- are imported, and it stays as it is when the table of hotels is truncated and filled again. Writes of hotels pay
-- nothing for it.
create table collection_hotels (
  collection_id text not null references collections (id) on delete cascade on update cascade,
  hotel_id text not null check (char_length(hotel_id) between 1 and 255),
  primary key (collection_id, hotel_id)
);

-- Lists are ordered by id in byte order, whatever the collation of the database.
create unique index collection_hotels_by_id_bytes on collection_hotels (collection_id, hotel_id collate "C");
