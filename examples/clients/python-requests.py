# python3 python-requests.py [ORDER_ID]; pip install requests
import os
import random
import sys
import time
from email.utils import parsedate_to_datetime

import requests

URL = os.environ["PETSTORE_URL"].rstrip("/")
TEMPORARY = (429, 502, 503, 504)


def bearer(request):
    request.headers["Authorization"] = f"Bearer {os.environ['PETSTORE_KEY']}"
    return request


session = requests.Session()
session.auth = bearer  # An entry in ~/.netrc would replace a header that is set without this.


def retry_after_seconds(headers):
    """Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past."""
    value = headers.get("Retry-After", "")
    try:
        seconds = int(value) if value.isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError):
        return 0
    return max(0, seconds)


def code_of(response):
    """An error of the service has a code; a proxy may send HTML, so its status is used."""
    try:
        return response.json()["code"]
    except (ValueError, TypeError, KeyError):
        return response.status_code


def send(method, path, headers=None):
    for attempt in range(1, 6):
        wait_seconds = 0
        try:
            response = session.request(method, URL + path, headers=headers, timeout=60)
            if response.status_code not in TEMPORARY:
                return response
            wait_seconds = retry_after_seconds(response.headers)
            error = requests.HTTPError(response.text, response=response)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as cause:
            error = cause
        if attempt == 5 or wait_seconds > 90:
            raise error
        time.sleep(wait_seconds + random.uniform(0, 2 ** (attempt - 1)))


orders = send("GET", "/store/orders")
orders.raise_for_status()
for order in orders.json():  # raises if the list is incomplete
    print(order["id"], order["petId"])

if "ETag" in orders.headers:
    again = send("GET", "/store/orders", {"If-None-Match": orders.headers["ETag"]})
    print("unchanged" if again.status_code == 304 else "changed")

if len(sys.argv) > 1:
    response = send("DELETE", f"/store/orders/{sys.argv[1]}")
    code = "cancelled" if response.status_code == 204 else code_of(response)
    # If the response to an earlier attempt was lost, the order is cancelled already.
    is_cancelled = code in ("cancelled", "order_already_cancelled")
    print(f"{sys.argv[1]}: {'cancelled' if is_cancelled else code}")
    sys.exit(0 if is_cancelled else 1)
