#!/bin/sh
# Builds dist/ and the bundle in it. An unchanged project takes some seconds, because the compiler continues from its last build.
set -e
if ! command -v nest >/dev/null; then
  echo 'error: the build needs the development packages; run "npm ci --include=dev"' >&2
  exit 1
fi
# It needs no database, and the variable may be that of another project. It says much, which matters only when it fails.
output=$(DATABASE_URL='' DATABASE_URL_FILE='' prisma generate --no-hints 2>&1) || { echo "$output" >&2; exit 1; }
nest build
node scripts/bundle.mjs
