#!/bin/sh
# Generates the passwords, and the URLs that contain them, for docker-compose.yml. Existing files are not changed. A password of your own
# must need no escaping in a URL.
#
# Compose mounts the files with their owner on this host, and each container reads them as its own user (node, postgres, redis).
# The files are therefore readable by everyone, but only the owner can open the directory on this host. A container sees only
# the files that are mounted into it.
set -eu
umask 077
cd "$(dirname "$0")"
# Containers read these files as their own users, too, and a clone made with another umask may be private.
for mounted in grafana postgres prometheus proxies redis; do
  chmod -R a+rX "$mounted"
done
mkdir -p secrets
chmod 0700 secrets
cd secrets
printf '*\n' >.gitignore

# Writes standard input to a new file, atomically.
make() {
  if [ -e "$1" ]; then
    cat >/dev/null
    return
  fi
  rm -f "$1.new" # of an interrupted run, which only root could write to
  cat >"$1.new"
  chmod 0444 "$1.new"
  mv "$1.new" "$1"
  echo "created deploy/secrets/$1"
}

# 192 random bits in base64url, which needs no escaping in a URL or a shell.
password() { head -c 24 /dev/urandom | base64 | tr '+/' '-_' | grep -x '.\{32\}'; }

# Assigned first: the failure of a command that is an argument or the start of a pipe would go unnoticed.
postgres=$(password) grafana=$(password) owner=$(password) service=$(password) redis=$(password)
echo "$postgres" | make postgres_password
echo "$grafana" | make grafana_password
echo "postgresql://petstore_owner:$owner@postgres:5432/petstore" | make owner_database_url
echo "postgresql://petstore_app:$service@postgres:5432/petstore" | make service_database_url

present=$(ls redis_password redis_url redis_users 2>/dev/null | wc -l)
if [ "$present" -ne 0 ] && [ "$present" -ne 3 ]; then
  echo 'error: redis_password, redis_url and redis_users hold the same password; remove all three from deploy/secrets/, and run this again' >&2
  exit 1
fi
echo "$redis" | make redis_password
printf 'redis://petstore:%s@redis:6379\n' "$(cat redis_password)" | make redis_url
# The users of Redis, with a digest of the password. The service may use only its own keys and the commands of its scripts. The user
# that is off has rights, because some versions check them when they load the file of counts: without them it would be lost.
digest=$(tr -d '\n' <redis_password | sha256sum | cut -d ' ' -f 1)
make redis_users <<USERS
user default off ~* &* +@all
user petstore on #$digest ~petstore:* resetchannels -@all +@read +@write +@scripting +@connection -@dangerous +time +info
USERS
