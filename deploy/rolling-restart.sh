#!/bin/sh
# Restarts the containers of a Compose service one after the other, each only when the one before is ready again:
#
#   deploy/rolling-restart.sh replica
#
# A container that is told to stop calls itself unready, goes on answering until the balancer has noticed, finishes what is
# under way and exits; so with two replicas or more, partners notice nothing. Restarting reads changed secrets anew; for a
# new version of the image see docs/operations.md.
set -eu
cd "$(dirname "$0")/.."
service=${1:?usage: deploy/rolling-restart.sh SERVICE}
compose=$(docker compose version >/dev/null 2>&1 && echo 'docker compose' || echo docker-compose)

# Exit code 0 when the service in the container is ready for requests.
is_ready() {
  docker exec "$1" node -e \
    'fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))'
}

for container in $($compose ps --quiet "$service"); do
  name=$(docker inspect --format '{{.Name}}' "$container" | tr -d /)
  # Longer than the service takes at most, see stop_grace_period.
  docker restart --time 35 "$container" >/dev/null
  attempts=0
  until is_ready "$container" >/dev/null 2>&1; do
    attempts=$((attempts + 1))
    if [ "$attempts" -ge 60 ]; then
      echo "error: $name did not become ready; the containers after it are left as they are" >&2
      exit 1
    fi
    sleep 1
  done
  # The balancer looks once a second.
  sleep 3
  echo "$name is ready again"
done
