-- The import that runs, in the only row; `import` is null if none does. Each transaction of an import updates the row, so
-- an import is killed if neither a transaction locks the row nor `active_at` is recent. Only the owner may use the table: no
-- other login can stop imports.
create table hotel_api_importer (
  import uuid,
  -- login, address, time and process of its beginning
  described text,
  active_at timestamptz,
  -- process of the server that ran its last transaction
  backend integer
);
insert into hotel_api_importer default values;
