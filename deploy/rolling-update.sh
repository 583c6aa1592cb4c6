#!/bin/sh
# Replaces the containers of a Compose service one by one with new ones, which use the current image, configuration and
# secrets:
#
#   deploy/rolling-update.sh replica
#
# A new container starts before an old one stops. The old one becomes unready, continues to respond until the balancer has
# noticed, finishes in-flight requests and exits, so no request is lost. During the update there is one additional container,
# with its database connections.
set -eu
cd "$(dirname "$0")/.."
service=${1:?usage: deploy/rolling-update.sh SERVICE}
if docker compose version >/dev/null 2>&1; then compose='docker compose'; else compose=docker-compose; fi

containers() { $compose --profile replicas ps --quiet "$service"; }
name_of() { docker inspect --format '{{.Name}}' "$1" | tr -d /; }

# Not by `fetch`, which uses the proxy of the environment and rejects some ports. An agent of its own does neither.
is_ready() {
  docker exec "$1" node --eval '
    require("node:http")
      .get({ host: "127.0.0.1", port: process.env.PORT || 3000, path: "/health/ready", agent: false }, (response) => {
        process.exit(response.statusCode === 200 ? 0 : 1);
      })
      .on("error", () => process.exit(1));'
}

wait_until_ready() {
  attempts=60
  until is_ready "$1" >/dev/null 2>&1; do
    attempts=$((attempts - 1))
    if [ "$attempts" -eq 0 ]; then
      echo "error: $(name_of "$1") did not become ready; read its log (docker logs), then remove it. The old containers are still running." >&2
      exit 1
    fi
    sleep 1
  done
  # The balancer resolves addresses and checks readiness once a second.
  sleep 3
}

# One that an interrupted update has stopped would be started again, in the place of a new one.
$compose --profile replicas rm --force "$service" >/dev/null
old=$(containers)
count=$(echo "$old" | wc -l)
[ -n "$old" ] || { echo "error: no container of $service is running; start it first" >&2; exit 1; }

for container in $old; do
  before=$(containers)
  said=$($compose --profile replicas up --detach --no-deps --no-recreate --scale "$service=$((count + 1))" "$service" 2>&1) ||
    { echo "$said" >&2; exit 1; }
  new=$(containers | grep --invert-match --fixed-strings "$before")
  wait_until_ready "$new"
  old_name=$(name_of "$container")
  # Waits for the stop_grace_period that the container was created with.
  docker stop "$container" >/dev/null
  exit_code=$(docker inspect --format '{{.State.ExitCode}}' "$container")
  docker rm "$container" >/dev/null
  echo "$(name_of "$new") is ready; $old_name exited with code $exit_code"
  [ "$exit_code" -ne 137 ] || echo "warning: $old_name was killed, and its requests were cut; raise STOP_GRACE_PERIOD" >&2
done
