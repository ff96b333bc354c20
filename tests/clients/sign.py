"""Real clients sign: the official `stripe` package and the `standardwebhooks` package make the headers, and a running
server takes them; with one flipped byte it refuses them.

Run by scripts/clients. Usage: sign.py PATH_OF_TOLLGATE
"""

import base64
import json
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone

import stripe
from standardwebhooks.webhooks import Webhook

STRIPE_SECRET = "whsec_" + secrets.token_hex(16)
STANDARD_SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
passed = failed = 0


def check(name, actual, expected):
    """Counts one comparison, and says what differs."""
    global passed, failed
    if actual == expected:
        passed += 1
        print(f"ok    {name}")
    else:
        failed += 1
        print(f"FAIL  {name}: expected {expected}, got {actual}")


def post(base, source, body, headers):
    """Posts a delivery. Returns the status and the outcome or error code."""
    headers = {**headers, "content-type": "application/json"}
    request = urllib.request.Request(f"{base}/webhooks/{source}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)["outcome"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["code"]


def get(base, path, key):
    """Reads a JSON document."""
    request = urllib.request.Request(base + path, headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def state_of(base, path, key):
    """The entity's state, once it is decided."""
    for _ in range(100):
        try:
            return get(base, path, key)["state"]
        except urllib.error.HTTPError:
            time.sleep(0.05)
    return None


def flipped(body):
    """The body with one bit of its last letter changed."""
    at = max(i for i, byte in enumerate(body) if chr(byte).isalpha())
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def stripe_signs(base, key):
    now = int(time.time())
    payload = json.dumps(
        {
            "id": "evt_real_client",
            "object": "event",
            "type": "payment_intent.succeeded",
            "created": now,
            "livemode": True,
            # An escape that a server which re-serializes the body would get wrong.
            "data": {"object": {"id": "pi_real", "object": "payment_intent", "status": "succeeded", "description": "caf\u00e9"}},
        }
    )
    header = stripe.WebhookSignature.generate_signature_header(payload, STRIPE_SECRET)
    body = payload.encode()
    check("stripe: accepted", post(base, "stripe", body, {"stripe-signature": header}), (200, "accepted"))
    check("stripe: again", post(base, "stripe", body, {"stripe-signature": header}), (200, "duplicate"))
    refused = (401, "signature_mismatch")
    check("stripe: one flipped byte", post(base, "stripe", flipped(body), {"stripe-signature": header}), refused)
    other = stripe.WebhookSignature.generate_signature_header(payload, "whsec_" + "0" * 32)
    check("stripe: another secret", post(base, "stripe", body, {"stripe-signature": other}), refused)
    old = stripe.WebhookSignature.generate_signature_header(payload, STRIPE_SECRET, timestamp=now - 301)
    check("stripe: too old", post(base, "stripe", body, {"stripe-signature": old}), (401, "timestamp_too_old"))
    check("stripe: the state", state_of(base, "/v1/entities/stripe/payment_intent/pi_real", key), "succeeded")


def standard_signs(base, key):
    at = datetime.now(tz=timezone.utc)
    payload = json.dumps(
        {
            "type": "payment.captured",
            "timestamp": at.isoformat(),
            "data": {"id": "pay_real", "status": "captured", "amount": "12.50", "currency": "EUR"},
        }
    )
    webhook = Webhook(STANDARD_SECRET)

    def headers(at):
        signature = webhook.sign(msg_id="msg_real_client", timestamp=at, data=payload)
        seconds = str(int(at.timestamp()))
        return {"webhook-id": "msg_real_client", "webhook-timestamp": seconds, "webhook-signature": signature}

    body = payload.encode()
    check("standard: accepted", post(base, "standard", body, headers(at)), (200, "accepted"))
    check("standard: again", post(base, "standard", body, headers(at)), (200, "duplicate"))
    check("standard: one flipped byte", post(base, "standard", flipped(body), headers(at)), (401, "signature_mismatch"))
    old = datetime.fromtimestamp(at.timestamp() - 301, tz=timezone.utc)
    check("standard: too old", post(base, "standard", body, headers(old)), (401, "timestamp_too_old"))
    new = datetime.fromtimestamp(at.timestamp() + 310, tz=timezone.utc)
    check("standard: too new", post(base, "standard", body, headers(new)), (401, "timestamp_too_new"))
    check("standard: the state", state_of(base, "/v1/entities/standard/payment/pay_real", key), "captured")


def serve(binary, data):
    """Starts a server on a free port. Returns the process and its address."""
    names = {"STRIPE_WEBHOOK_SECRET": STRIPE_SECRET, "STANDARD_WEBHOOK_SECRET": STANDARD_SECRET}
    # A port that was free a moment ago: good enough on a machine of our own.
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--data", data]
    process = subprocess.Popen(command, env={**os.environ, **names}, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            urllib.request.urlopen(base + "/readyz", timeout=1)
            return process, base
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    process.kill()
    sys.exit("the server did not become ready")


def main():
    with tempfile.TemporaryDirectory() as data:
        process, base = serve(sys.argv[1], data)
        try:
            key = pathlib.Path(data, "operator.key").read_text().strip()
            stripe_signs(base, key)
            standard_signs(base, key)
        finally:
            process.terminate()
            code = process.wait(timeout=15)
        check("the server ends cleanly on SIGTERM", code, 0)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
