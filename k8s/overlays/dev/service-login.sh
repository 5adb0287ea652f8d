#!/bin/sh
# The login of the service: a member of the role that the migrations grant to, and of nothing else.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$SERVICE_PASSWORD" --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
create role hotel_api_serve nologin;
create role service login password :'password' in role hotel_api_serve;
SQL
