-- Its lock is the turn of an import. Only the owner may take it: no other login can stop imports. A view, because VACUUM and
-- ANALYZE lock tables.
create view hotel_api_importer as select;
