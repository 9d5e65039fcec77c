# Run with: CREDENTIALS=client_id:client_secret SIGNING_SECRET=whsec_… PORT=4000 python3 receiver.py
import base64, hashlib, hmac, json, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASIC = b"Basic " + base64.b64encode(os.environ["CREDENTIALS"].encode())
KEY = base64.b64decode(os.environ["SIGNING_SECRET"].removeprefix("whsec_"))
handled = set()  # In production, a table in your database


def is_genuine(headers, body):
    if not hmac.compare_digest(headers.get("authorization", "").encode(), BASIC):
        return False
    sent = headers.get("webhook-timestamp", "")
    if not (sent.isascii() and sent.isdigit() and abs(time.time() - int(sent)) <= 300):
        return False
    signed = f"{headers.get('webhook-id')}.{sent}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256))
    signatures = headers.get("webhook-signature", "").encode().split()
    return any([hmac.compare_digest(each, expected) for each in signatures])


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        size = self.headers.get("content-length", "")
        body = self.rfile.read(int(size)) if size.isdigit() and int(size) <= 65536 else b""
        genuine = is_genuine(self.headers, body)
        if genuine and self.headers["webhook-id"] not in handled:
            notification = json.loads(body)
            print(notification["notification_type"], notification["data"]["user_uuid"], flush=True)
            handled.add(self.headers["webhook-id"])
        self.send_response(200 if genuine else 401)
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
