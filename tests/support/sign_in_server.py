"""An HTTP server with its own authorization server. A refresh token can be used once."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from support.http_server import Reply, Request, first_values, json_reply, serving

Json = Any

PLACES = {
    "issuer": "",
    "authorization_endpoint": "/authorize",
    "token_endpoint": "/oauth/token",
    "registration_endpoint": "/register",
}
KNOWN = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}


@dataclass
class SignInServer:
    """A running one."""

    here: str = ""
    granted: list[str] = field(default_factory=list)  # grant types of its tokens
    lifetime: int = 3_600  # of a token, in seconds
    refuses: bool = False  # whether it lets nobody in
    takes_none: bool = False  # whether it takes no token, not even its own
    scope: str | None = None  # what a token must be good for
    token_replies: list[Reply] = field(default_factory=list)  # what the next who want a token get
    on_asked: Callable[[Json], None] = lambda asked: None  # of each request
    refused: int = 0  # how many requests had no token, or another
    clients: int = 0  # how many have registered
    challenge: str = ""  # of the sign-in that is under way
    renewals: int = 0  # how many refresh tokens it gave; the last one can be used
    granted_scope: str | None = None  # what the last sign-in was for

    @property
    def url(self) -> str:
        return f"{self.here}/mcp"

    @property
    def token(self) -> str:
        return f"tok-{len(self.granted)}-secret"

    def revoke(self) -> None:
        self.granted.append("revoked")

    def answer(self, request: Request) -> Reply:
        path = request.parts.path
        if path == "/authorize":
            return Reply(status=302, headers={"Location": self.sign_in(request.query)})
        if path.startswith("/.well-known/oauth-protected-resource"):
            return json_reply({"resource": self.url, "authorization_servers": [self.here]})
        if path.startswith("/.well-known/"):
            places = {name: f"{self.here}{at}" for name, at in PLACES.items()}
            return json_reply(places | KNOWN)
        if path == "/register":
            self.clients += 1
            return json_reply({**request.json, "client_id": f"client-{self.clients}"}, 201)
        if path == "/oauth/token" and self.token_replies:
            return self.token_replies.pop(0)
        if path == "/oauth/token":
            granted = self.grant(first_values(request.body.decode()))
            return json_reply(granted, 400 if "error" in granted else 200)
        if path != "/mcp" or request.method != "POST":
            return json_reply({}, 404)
        given = request.headers["authorization"]
        if self.takes_none or not self.granted or given != f"Bearer {self.token}":
            self.refused += 1
            return json_reply({}, 401)
        if self.scope is not None and self.scope != self.granted_scope:
            wanted = f'Bearer error="insufficient_scope", scope="{self.scope}"'
            return Reply(b"{}", status=403, headers={"WWW-Authenticate": wanted})
        self.on_asked(request.json)
        return json_reply({"jsonrpc": "2.0", "id": request.json["id"], "result": {"ok": True}})

    def grant(self, given: dict[str, str]) -> Json:
        if given["grant_type"] == "authorization_code":
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.challenge
            assert given["code"] == "the-code"
        elif given["refresh_token"] != f"renew-{self.renewals}":
            return {"error": "invalid_grant"}
        self.granted.append(given["grant_type"])
        self.renewals += 1
        token = {"access_token": self.token, "refresh_token": f"renew-{self.renewals}"}
        return {**token, "token_type": "Bearer", "expires_in": self.lifetime}

    def sign_in(self, asked: dict[str, str]) -> str:
        """Where a browser is sent on to, when its person signs in as it is `asked` to."""
        self.challenge, self.granted_scope = asked["code_challenge"], asked.get("scope")
        brought = {"error": "access_denied"} if self.refuses else {"code": "the-code"}
        return f"{asked['redirect_uri']}?{urlencode({**brought, 'state': asked['state']})}"


@contextmanager
def sign_in_server() -> Iterator[SignInServer]:
    running = SignInServer()
    with serving(running.answer) as running.here:
        yield running
