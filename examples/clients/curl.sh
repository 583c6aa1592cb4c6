#!/bin/sh
# sh curl.sh [ORDER_ID]; writes orders.json and orders.etag
set -eu

# Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past.
retry_after_seconds() {
  jq -nr --arg value "$1" '[
    $value | if test("^[0-9]+$") then tonumber else try (strptime("%a, %d %b %Y %H:%M:%S GMT") | mktime - now) catch 0 end, 0
  ] | max'
}

# Sets status; 000 when the connection was lost.
request() {
  for backoff in 1 2 4 8 16; do
    : >response.headers
    status=$(
      printf 'Authorization: Bearer %s' "$PETSTORE_KEY" | curl --header @- --silent --show-error --compressed \
        --max-time 60 --dump-header response.headers --write-out '%{http_code}' "$@"
    ) || status=000
    case $status in 000 | 429 | 502 | 503 | 504) ;; *) return ;; esac
    value=$(tr -d '\r' <response.headers | awk 'tolower($1) == "retry-after:" { sub(/^[^ ]* */, ""); print }')
    seconds=$(retry_after_seconds "$value")
    [ "$backoff" -lt 16 ] && [ "${seconds%.*}" -le 90 ] || return 0
    sleep "$(awk -v min="$seconds" -v max="$backoff" 'BEGIN { srand(); print min + rand() * max }')"
  done
}

list() {
  touch orders.etag
  : >orders.etag.new # stays empty if the list has no ETag
  request --etag-compare orders.etag --etag-save orders.etag.new --output orders.json.new "$PETSTORE_URL/store/orders"
  case $status in
  200)
    jq --exit-status 'type == "array"' orders.json.new >/dev/null # fails if the list is incomplete
    mv orders.json.new orders.json
    mv orders.etag.new orders.etag
    ;;
  304) ;;
  *)
    cat orders.json.new >&2
    exit 1
    ;;
  esac
}

list
# Works with every version of jq, because it does not use it.
grep -oE '"(id|petId)":-?[0-9]+' orders.json | cut -d : -f 2 | paste -d ' ' - -

if [ -s orders.etag ]; then
  list
  [ "$status" = 304 ] && echo unchanged || echo changed
fi

if [ $# -gt 0 ]; then
  : >cancel.json
  request --request DELETE --output cancel.json "$PETSTORE_URL/store/orders/$1"
  code=cancelled
  [ "$status" = 204 ] || code=$(jq -er .code cancel.json 2>/dev/null) || code=$status # A proxy may send HTML.
  # If the response to an earlier attempt was lost, the order is cancelled already.
  [ "$code" = order_already_cancelled ] && code=cancelled
  echo "$1: $code"
  [ "$code" = cancelled ]
fi
