#!/bin/sh
# The entrypoint of the image `postgres` runs this once, when its volume is empty. The service gets a role and a database of
# its own: the superuser could read files and start programs on the database server.
set -eu

psql --username "$POSTGRES_USER" --dbname postgres --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\set password `cat /run/secrets/postgres-password`
CREATE ROLE sign_in LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE sign_in OWNER sign_in;
REVOKE ALL ON DATABASE sign_in FROM PUBLIC;
SQL
