"""`requestState`: what a host brings back with an answer, sealed so that only this process can have
made it.

It names a call; whoever could make one up could answer for somebody else. So it is encrypted and
authenticated with a key that lives as long as the process, and everything that the host could have
changed about the call is in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject
from abp_bridge.errors import AbpBridgeError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_NONCE = 12  # bytes
_PURPOSE = b"abp-bridge requestState"
MAX_STATE = 4_096  # characters


class InvalidRequestStateError(AbpBridgeError):
    """It was not made here, or was changed on its way."""


@dataclass(frozen=True, slots=True)
class RequestState:
    """One round of one call: `digest` is of the tool's name and arguments.

    It lasts as long as its call is kept.
    """

    call: str
    digest: str
    round: int


def digest(tool: str, arguments: JsonObject) -> str:
    """What a call was made with, in few characters."""
    made = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(made.encode(errors="surrogatepass"), digest_size=16).hexdigest()


class RequestStateCodec:
    """Made once per session, used from its first question on."""

    @cached_property
    def _cipher(self) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(ChaCha20Poly1305.generate_key())

    def encode(self, state: RequestState) -> str:
        """A state as text that only this can read or make."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher.encrypt(nonce, json.dumps(astuple(state)).encode(), _PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def decode(self, text: str) -> RequestState:
        """What a text of `encode` stands for.

        Raises:
            InvalidRequestStateError: It was not made here, or was changed on its way.
        """
        from cryptography.exceptions import InvalidTag

        try:
            if len(text) > MAX_STATE:
                raise ValueError
            data = base64.b64decode(text, altchars=b"-_", validate=True)
            return RequestState(
                *json.loads(self._cipher.decrypt(data[:_NONCE], data[_NONCE:], _PURPOSE))
            )
        except (ValueError, binascii.Error, InvalidTag):
            raise InvalidRequestStateError from None
