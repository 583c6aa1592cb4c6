#!/bin/sh
# Changes the password of a database role without downtime:
#
#   deploy/rotate-password.sh owner      changes the owner's password at once; only commands log in as the owner
#   deploy/rotate-password.sh service    creates a second login role for the service and writes its URL
#   deploy/rolling-update.sh replica     replaces the containers; the new ones use the new role
#   deploy/rotate-password.sh finish     drops the old role
#
# The service's rights belong to petstore_service, and login roles are its members. Both logins are therefore valid until
# `finish`.
set -eu
cd "$(dirname "$0")/.."
if docker compose version >/dev/null 2>&1; then compose='docker compose'; else compose=docker-compose; fi

# Statements are read from standard input, so that no password appears in a process list.
sql() { $compose exec -T postgres psql --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --username postgres petstore; }
password() { head -c 24 /dev/urandom | base64 | tr '+/' '-_' | grep -x '.\{32\}'; }
login_of() { sed -E 's|^.*//([^:]*):.*$|\1|' "deploy/secrets/$1_database_url"; }

reject_other_server() {
  grep -q '@postgres:5432/petstore$' "deploy/secrets/$1_database_url" ||
    { echo "error: deploy/secrets/$1_database_url is not for the PostgreSQL of Compose; change the password where it is" >&2; exit 1; }
}

# The file is replaced, not rewritten: running containers keep the file that they were started with.
write_url() {
  umask 077
  rm -f "deploy/secrets/$1_database_url.new" # of an interrupted run, which only root could write to
  printf 'postgresql://%s:%s@postgres:5432/petstore\n' "$2" "$3" >"deploy/secrets/$1_database_url.new"
  chmod 0444 "deploy/secrets/$1_database_url.new"
  mv "deploy/secrets/$1_database_url.new" "deploy/secrets/$1_database_url"
}

case ${1:-} in
  owner)
    reject_other_server owner
    password=$(password)
    echo "ALTER ROLE $(login_of owner) PASSWORD '$password'" | sql
    write_url owner "$(login_of owner)" "$password"
    echo 'Changed the password of the owner.'
    ;;
  service)
    reject_other_server service
    login=petstore_app_$(date -u +%Y%m%d%H%M%S)
    password=$(password)
    echo "CREATE ROLE $login LOGIN PASSWORD '$password' IN ROLE petstore_service" | sql
    write_url service "$login" "$password"
    echo "New containers log in as $login. Replace the running ones, then run: deploy/rotate-password.sh finish"
    ;;
  finish)
    current=$(login_of service)
    # Only the logins that init-roles.sh and this script create.
    old="FROM pg_roles AS login WHERE rolname ~ '^petstore_app(_[0-9]{14})?$' AND rolname <> '$current' AND EXISTS (
      SELECT FROM pg_auth_members WHERE member = login.oid AND roleid = 'petstore_service'::regrole)"
    reject_if_used() {
      used=$(echo "SELECT DISTINCT usename FROM pg_stat_activity WHERE usename IN (SELECT rolname $old)" | sql)
      if [ -n "$used" ]; then
        echo "error: $used is still in use; replace the containers first" >&2
        exit 1
      fi
    }
    reject_if_used
    # A container that has just lost its connections opens one again within 5 s.
    sleep 6
    reject_if_used
    roles=$(echo "SELECT rolname $old" | sql)
    for role in $roles; do
      echo "DROP ROLE $role" | sql
      echo "Dropped $role; the service logs in as $current."
    done
    ;;
  *)
    echo 'usage: deploy/rotate-password.sh owner | service | finish' >&2
    exit 2
    ;;
esac
