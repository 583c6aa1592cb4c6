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

# Prisma takes an engine that ends without a word, killed for want of memory for instance, for one that is done, and exits
# with 0. So a migration counts as carried out only when Prisma says afterwards that none is left.
if [ "$*" = 'migrate deploy' ]; then
  status=$(prisma migrate status 2>&1) || true
  case $status in
    *'Database schema is up to date!'*) echo 'Database schema is up to date!' ;;
    *)
      echo "$status"
      echo 'error: there is no word that every migration is applied' >&2
      exit 1
      ;;
  esac
fi
