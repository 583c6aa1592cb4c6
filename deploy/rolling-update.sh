#!/bin/sh
# Replaces the containers of a Compose service one after the other by new ones, which have the image, configuration and
# secrets of now:
#
#   deploy/rolling-update.sh replica
#
# A new container joins before an old one leaves. The old one calls itself unready, goes on answering until the balancer has
# noticed, finishes what is under way and exits; partners notice nothing. For a while there is one container more than
# before, with its database connections.
set -eu
cd "$(dirname "$0")/.."
service=${1:?usage: deploy/rolling-update.sh SERVICE}
if docker compose version >/dev/null 2>&1; then compose='docker compose'; else compose=docker-compose; fi

containers() { $compose --profile replicas ps --quiet "$service"; }
name_of() { docker inspect --format '{{.Name}}' "$1" | tr -d /; }

is_ready() {
  docker exec "$1" node --eval \
    'fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))'
}

wait_until_ready() {
  attempts=60
  until is_ready "$1" >/dev/null 2>&1; do
    attempts=$((attempts - 1))
    if [ "$attempts" -eq 0 ]; then
      echo "error: $(name_of "$1") does not become ready; see docker logs. The old containers go on; remove it when you know why." >&2
      exit 1
    fi
    sleep 1
  done
  # The balancer looks for new addresses and asks for readiness once a second.
  sleep 3
}

old=$(containers)
count=$(echo "$old" | wc -l)
[ -n "$old" ] || { echo "error: there is no container of $service" >&2; exit 1; }

for container in $old; do
  before=$(containers)
  said=$($compose --profile replicas up --detach --no-deps --no-recreate --scale "$service=$((count + 1))" "$service" 2>&1) ||
    { echo "$said" >&2; exit 1; }
  new=$(containers | grep --invert-match --fixed-strings "$before")
  wait_until_ready "$new"
  left=$(name_of "$container")
  # Longer than the service takes at most, see stop_grace_period.
  docker stop --time 35 "$container" >/dev/null
  exit_code=$(docker inspect --format '{{.State.ExitCode}}' "$container")
  docker rm "$container" >/dev/null
  echo "$(name_of "$new") is ready; $left ended with exit code $exit_code"
done
