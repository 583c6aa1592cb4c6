#!/bin/sh
# sh curl.sh [ORDER_ID]; writes orders.json and orders.etag
set -eu
url=${PETSTORE_URL%/}
temporary=$(mktemp -d)
trap 'rm -r "$temporary"' EXIT

# Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past.
retry_after_seconds() {
  jq -nr --arg value "$1" '[
    $value | if test("^[0-9]+$") then tonumber else try (strptime("%a, %d %b %Y %H:%M:%S GMT") | mktime - now) catch 0 end, 0
  ] | max'
}

# Sets status; 000 when the connection was lost. Below 5 curl has sent nothing: the URL is malformed, or curl is too old.
request() {
  for backoff in 1 2 4 8 16; do
    : >"$temporary/headers"
    status=$(
      printf 'Authorization: Bearer %s' "$PETSTORE_KEY" | curl --header @- --silent --show-error --compressed \
        --max-time 60 --dump-header "$temporary/headers" --write-out '%{http_code}' "$@"
    ) || { [ $? -ge 5 ] || exit 1; status=000; }
    case $status in 000 | 429 | 502 | 503 | 504) ;; *) return ;; esac
    value=$(tr -d '\r' <"$temporary/headers" | awk 'tolower($1) == "retry-after:" { sub(/^[^ ]* */, ""); print }')
    seconds=$(retry_after_seconds "$value")
    [ "$backoff" -lt 16 ] && [ "${seconds%.*}" -le 90 ] || return 0
    # awk's own random numbers are the same for all that start in one second.
    random=$(od -An -N4 -tu4 /dev/urandom)
    sleep "$(awk -v min="$seconds" -v max="$backoff" -v random="$random" 'BEGIN { print min + max * random / 2 ^ 32 }')"
  done
}

list() {
  touch orders.etag
  : >"$temporary/etag"   # stays empty if the list has no ETag
  : >"$temporary/orders" # stays empty without a response
  request --etag-compare orders.etag --etag-save "$temporary/etag" --output "$temporary/orders" "$url/store/orders"
  case $status in
  200)
    jq --exit-status 'type == "array"' "$temporary/orders" >/dev/null # fails if the list is incomplete
    mv "$temporary/orders" orders.json
    mv "$temporary/etag" orders.etag
    ;;
  304) ;;
  *)
    cat "$temporary/orders" >&2
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
  : >"$temporary/cancel"
  request --request DELETE --output "$temporary/cancel" "$url/store/orders/$1"
  code=cancelled
  [ "$status" = 204 ] || code=$(jq -er .code "$temporary/cancel" 2>/dev/null) || code=$status # A proxy may send HTML.
  # If the response to an earlier attempt was lost, the order is cancelled already.
  [ "$code" = order_already_cancelled ] && code=cancelled
  echo "$1: $code"
  [ "$code" = cancelled ]
fi
