#!/bin/sh
# Makes the passwords that docker-compose.yml mounts, and the URLs that hold them. What is there already stays as it is.
#
# Compose mounts these files as they are, with their owner on this host, and each container reads them as a user of its own
# (node, postgres, redis). So the folder is closed to everybody but its owner, and the files in it are open to read: on this
# host nobody else gets as far as the files, and in a container only those files appear that it was given.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets
chmod 0700 secrets
cd secrets
printf '*\n' >.gitignore

# Writes standard input to a file that is not there yet, all of it or nothing.
make() {
  if [ -e "$1" ]; then
    cat >/dev/null
    return
  fi
  cat >"$1.new"
  chmod 0444 "$1.new"
  mv "$1.new" "$1"
  echo "made deploy/secrets/$1"
}

# 192 random bits in the alphabet of base64url, which no URL and no shell has to escape.
password() { head -c 24 /dev/urandom | base64 | tr '+/' '-_'; }

password | make postgres_password
password | make grafana_password
printf 'postgresql://petstore_owner:%s@postgres:5432/petstore\n' "$(password)" | make owner_database_url
printf 'postgresql://petstore_app:%s@postgres:5432/petstore\n' "$(password)" | make service_database_url

password | make redis_password
printf 'redis://petstore:%s@redis:6379\n' "$(cat redis_password)" | make redis_url
# Redis keeps its users in a file, by digest: ours has the limits' keys and what the limits' scripts do with them.
digest=$(tr -d '\n' <redis_password | sha256sum | cut -d ' ' -f 1)
make redis_users <<USERS
user default off
user petstore on #$digest ~petstore:* resetchannels -@all +@read +@write +@scripting +@connection -@dangerous +time +info
USERS
