-- A publication of all tables, such as one of a tool for change data capture, rejects deletes from a table without a replica
-- identity. The service takes changes off the queue by deletes. Only with wal_level = logical does this write more.
alter table hotel_api_changes replica identity full;
