#!/bin/sh
# Run by the postgres image once, on an empty data folder. Makes the two roles that log in, with the names and passwords of
# the URLs that they log in by: the owner, which migrates and administers keys, and the service's, which has the rights of
# petstore_service and no others. What these rights are, a migration says. psql reads the passwords by itself, so that no
# process list shows them.
psql --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\set owner `sed -E 's|^.*//([^:]*):.*$|\1|' /run/secrets/owner_database_url`
\set owner_password `sed -E 's|^.*//[^:]*:([^@]*)@.*$|\1|' /run/secrets/owner_database_url`
\set service `sed -E 's|^.*//([^:]*):.*$|\1|' /run/secrets/service_database_url`
\set service_password `sed -E 's|^.*//[^:]*:([^@]*)@.*$|\1|' /run/secrets/service_database_url`
CREATE ROLE :"owner" LOGIN PASSWORD :'owner_password';
CREATE ROLE petstore_service NOLOGIN;
CREATE ROLE :"service" LOGIN PASSWORD :'service_password' IN ROLE petstore_service;
ALTER DATABASE :"DBNAME" OWNER TO :"owner";
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO petstore_service;
SQL
