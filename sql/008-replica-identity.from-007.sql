-- A publication of all tables, as of tools for change data capture, rejects deletes from a table without an identity of its
-- rows. The service takes changes off the queue by deletes. Only with wal_level = logical does this write more.
alter table hotel_api_changes replica identity full;
