#!/bin/sh
# Gives a database role a new password while everything runs:
#
#   deploy/rotate-password.sh owner      at once: nothing is logged in as the owner but commands while they run
#   deploy/rotate-password.sh service    makes a second login role for the service and writes its URL; then replace the
#   deploy/rolling-update.sh replica     containers, so that they log in by it;
#   deploy/rotate-password.sh finish     and drop the role that nobody uses any more
#
# The service's rights belong to petstore_service; login roles are its members and come and go. So there is no moment at
# which a running service has the wrong password.
set -eu
cd "$(dirname "$0")/.."
if docker compose version >/dev/null 2>&1; then compose='docker compose'; else compose=docker-compose; fi

# Statements come on standard input, so that no process list shows a password.
sql() { $compose exec -T postgres psql --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --username postgres petstore; }
password() { head -c 24 /dev/urandom | base64 | tr '+/' '-_'; }
login_of() { sed -E 's|^.*//([^:]*):.*$|\1|' "deploy/secrets/$1_database_url"; }

# The file is replaced and not rewritten: containers that run keep the one that they were started with.
write_url() {
  umask 077
  printf 'postgresql://%s:%s@postgres:5432/petstore\n' "$2" "$3" >"deploy/secrets/$1_database_url.new"
  chmod 0444 "deploy/secrets/$1_database_url.new"
  mv "deploy/secrets/$1_database_url.new" "deploy/secrets/$1_database_url"
}

case ${1:-} in
  owner)
    password=$(password)
    echo "ALTER ROLE $(login_of owner) PASSWORD '$password'" | sql
    write_url owner "$(login_of owner)" "$password"
    echo 'The owner has a new password.'
    ;;
  service)
    login=petstore_app_$(date -u +%Y%m%d%H%M%S)
    password=$(password)
    echo "CREATE ROLE $login LOGIN PASSWORD '$password' IN ROLE petstore_service" | sql
    write_url service "$login" "$password"
    echo "Containers that start from now on log in as $login. Replace those that run, then: deploy/rotate-password.sh finish"
    ;;
  finish)
    current=$(login_of service)
    used=$(echo "SELECT DISTINCT usename FROM pg_stat_activity WHERE usename LIKE 'petstore_app%' AND usename <> '$current'" | sql)
    if [ -n "$used" ]; then
      echo "error: $used is still in use; replace the containers first" >&2
      exit 1
    fi
    for role in $(echo "SELECT rolname FROM pg_roles WHERE rolname LIKE 'petstore_app%' AND rolname <> '$current'" | sql); do
      echo "DROP ROLE $role" | sql
      echo "$role is dropped; the service logs in as $current."
    done
    ;;
  *)
    echo 'usage: deploy/rotate-password.sh owner | service | finish' >&2
    exit 2
    ;;
esac
