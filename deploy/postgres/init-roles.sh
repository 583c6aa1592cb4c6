#!/bin/sh
# The postgres image runs this script once, on an empty data directory. It creates the two login roles with the names and
# passwords in their URLs: the owner, which runs migrations and manages keys, and the service's role, a member of
# petstore_service. A migration grants the rights of petstore_service. psql reads the passwords itself, so that they never
# appear in a process list.
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
-- Up to PostgreSQL 14 everybody may create in this schema, and so have code run with the privileges of the owner.
GRANT CREATE ON SCHEMA public TO :"owner";
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
SQL
