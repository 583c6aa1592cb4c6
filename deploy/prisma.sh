#!/bin/sh
# Runs the Prisma CLI in the migrate image. Like the service it takes the database's address from a file; Prisma itself
# reads DATABASE_URL only.
set -eu
if [ -n "${DATABASE_URL_FILE:-}" ]; then
  DATABASE_URL=$(cat "$DATABASE_URL_FILE")
  export DATABASE_URL
fi
if [ -z "${DATABASE_URL:-}" ]; then
  echo 'error: set DATABASE_URL or DATABASE_URL_FILE to the database to migrate' >&2
  exit 1
fi
prisma() { node node_modules/prisma/build/index.js "$@"; }
prisma "$@"

# Prisma exits with 0 even when its engine was killed, for example because memory ran out. The migration is therefore
# successful only if `migrate status` then reports that no migration is left.
if [ "$*" = 'migrate deploy' ]; then
  status=$(prisma migrate status 2>&1) || true
  case $status in
    *'Database schema is up to date!'*) echo 'Database schema is up to date!' ;;
    *)
      echo "$status"
      echo 'error: not every migration has been applied; see the status above' >&2
      exit 1
      ;;
  esac
fi
