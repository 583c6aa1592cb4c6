#!/bin/sh
# Run by the postgres image once, on an empty data folder. Two roles can log in: the owner, which migrates and administers
# keys, and the service's, which has the rights of petstore_service and no others. What these rights are, a migration says.
# The passwords are read by psql itself, so that no process list shows them.
psql --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\set owner_password `cat /run/secrets/owner_password`
\set service_password `cat /run/secrets/service_password`
CREATE ROLE petstore_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE petstore_service NOLOGIN;
CREATE ROLE petstore_app LOGIN PASSWORD :'service_password' IN ROLE petstore_service;
ALTER DATABASE :"DBNAME" OWNER TO petstore_owner;
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO petstore_service;
SQL
