#!/bin/sh
# Runs the Prisma CLI in the migrate image. Like the service it takes the database's address from a file; Prisma itself
# reads DATABASE_URL only.
set -eu
if [ -n "${DATABASE_URL_FILE:-}" ]; then
  DATABASE_URL=$(cat "$DATABASE_URL_FILE")
  export DATABASE_URL
fi
if [ -z "${DATABASE_URL:-}" ]; then
  echo 'error: DATABASE_URL or DATABASE_URL_FILE must name the database to migrate' >&2
  exit 1
fi
prisma() { node node_modules/prisma/build/index.js "$@"; }
prisma "$@"
# When its engine is killed halfway, for want of memory for instance, `migrate deploy` ends with 0 all the same. What counts
# is that no migration is left.
if [ "$*" = 'migrate deploy' ]; then
  prisma migrate status
fi
