"""A server over HTTP that wants a sign-in: its own authorization server, on the same port.

Who opens its address to sign in is signed in at once, or refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

Json = Any


@dataclass
class SignInServer:
    """A running one.

    Attributes:
        granted: The grant types of the tokens it gave, in that order.
        lifetime: Of a token, in seconds.
        refuses: Whether it lets nobody in.
        clients: How many have registered.
    """

    here: str = ""
    granted: list[str] = field(default_factory=list)
    lifetime: int = 3_600
    refuses: bool = False
    clients: int = 0
    challenge: str = ""

    @property
    def url(self) -> str:
        return f"{self.here}/mcp"

    @property
    def token(self) -> str:
        """The only one that it takes now."""
        return f"tok-{len(self.granted)}-secret"

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Json]:
        if path.startswith("/.well-known/oauth-protected-resource"):
            return 200, {"resource": self.url, "authorization_servers": [self.here]}
        if path.startswith("/.well-known/"):
            return 200, {
                "issuer": self.here,
                "authorization_endpoint": f"{self.here}/authorize",
                "token_endpoint": f"{self.here}/token",
                "registration_endpoint": f"{self.here}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
        if path == "/register":
            self.clients += 1
            return 201, {**json.loads(body), "client_id": f"client-{self.clients}"}
        if path == "/token":
            return self.grant({k: v[0] for k, v in parse_qs(body.decode()).items()})
        if path != "/mcp" or method != "POST":
            return 404, {}
        if token != f"Bearer {self.token}" or not self.granted:
            return 401, {}
        message = json.loads(body)
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": {"ok": True}}

    def grant(self, given: dict[str, str]) -> tuple[int, Json]:
        if given["grant_type"] == "authorization_code":
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.challenge
            assert given["code"] == "the-code"
        else:
            assert given["refresh_token"] == "renew"
        self.granted.append(given["grant_type"])
        token = {"access_token": self.token, "refresh_token": "renew"}
        return 200, {**token, "token_type": "Bearer", "expires_in": self.lifetime}

    def sign_in(self, address: str) -> str:
        """Where a browser is sent on to, when its person signs in at this address."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.challenge = asked["code_challenge"]
        brought = {"error": "access_denied"} if self.refuses else {"code": "the-code"}
        return f"{asked['redirect_uri']}?{urlencode({**brought, 'state': asked['state']})}"


@contextmanager
def sign_in_server() -> Iterator[SignInServer]:
    running = SignInServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply("GET", b"")

        def do_POST(self) -> None:
            self.reply("POST", self.rfile.read(int(self.headers["content-length"])))

        def reply(self, method: str, body: bytes) -> None:
            path = urlsplit(self.path).path
            if path == "/authorize":
                self.send_response(302)
                self.send_header("location", running.sign_in(self.path))
                self.send_header("content-length", "0")
                self.end_headers()
                return
            token = self.headers.get("authorization", "")
            status, answer = running.answer(method, path, body, token)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.here = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
