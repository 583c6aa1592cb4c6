#!/bin/sh
# sh curl.sh [ORDER_ID]; writes orders.json and orders.etag
set -eu

request() {
  printf 'Authorization: Bearer %s' "$PETSTORE_KEY" | curl --header @- --silent --show-error --compressed \
    --max-time 60 --retry 4 --retry-all-errors --retry-max-time 90 --write-out '%{http_code}' "$@"
}

list() {
  touch orders.etag
  status=$(request --etag-compare orders.etag --etag-save orders.etag.new --output orders.json.new \
    "$PETSTORE_URL/store/orders")
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

list
[ "$status" = 304 ] && echo unchanged || echo changed

if [ $# -gt 0 ]; then
  status=$(request --request DELETE --output cancel.json "$PETSTORE_URL/store/orders/$1")
  code=cancelled
  [ "$status" = 204 ] || code=$(jq -r .code cancel.json)
  [ "$code" = order_already_cancelled ] && code=cancelled
  echo "$1: $code"
fi
