# python3 python-urllib.py [ORDER_ID]
import gzip
import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime

URL = os.environ["PETSTORE_URL"].rstrip("/")
TEMPORARY = (429, 502, 503, 504)
if not URL.startswith(("http:", "https:")):  # Not repeated like a lost connection, which is a URLError, too.
    sys.exit("PETSTORE_URL must be like https://api.example.com/v1.")


def retry_after_seconds(headers):
    """Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past."""
    value = headers.get("Retry-After", "")
    try:
        seconds = int(value) if value.isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError):
        return 0
    return max(0, seconds)


def code_of(status, body):
    """An error of the service has a code; a proxy may send HTML, so its status is used."""
    try:
        return json.loads(body)["code"]
    except (ValueError, TypeError, KeyError):
        return status


def send(method, path, headers=None):
    """Returns the status, the headers and the decompressed body."""
    all_headers = {
        "Authorization": f"Bearer {os.environ['PETSTORE_KEY']}",
        "Accept-Encoding": "gzip",
        **(headers or {}),
    }
    request = urllib.request.Request(URL + path, method=method, headers=all_headers)
    for attempt in range(1, 6):
        wait_seconds = 0
        try:
            try:
                response = urllib.request.urlopen(request, timeout=60)
            except urllib.error.HTTPError as error_response:
                response = error_response
            with response:
                body = response.read()  # raises IncompleteRead if the connection breaks before the end
            if response.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)  # raises EOFError if the data has no end
            if response.status not in TEMPORARY:
                return response.status, response.headers, body
            wait_seconds = retry_after_seconds(response.headers)
            error = RuntimeError(body.decode())
        except (OSError, EOFError, http.client.HTTPException) as cause:
            error = cause
        if attempt == 5 or wait_seconds > 90:
            raise error
        time.sleep(wait_seconds + random.uniform(0, 2 ** (attempt - 1)))


status, headers, body = send("GET", "/store/orders")
if status != 200:
    raise RuntimeError(body.decode())
for order in json.loads(body):
    print(order["id"], order["petId"])

if "ETag" in headers:
    status, _, _ = send("GET", "/store/orders", {"If-None-Match": headers["ETag"]})
    print("unchanged" if status == 304 else "changed")

if len(sys.argv) > 1:
    status, _, body = send("DELETE", f"/store/orders/{sys.argv[1]}")
    code = "cancelled" if status == 204 else code_of(status, body)
    # If the response to an earlier attempt was lost, the order is cancelled already.
    is_cancelled = code in ("cancelled", "order_already_cancelled")
    print(f"{sys.argv[1]}: {'cancelled' if is_cancelled else code}")
    sys.exit(0 if is_cancelled else 1)
