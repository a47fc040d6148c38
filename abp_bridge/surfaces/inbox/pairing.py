"""Which browsers are the person's: paired once, until they are forgotten.

The secret of each is in that browser's cookie and nowhere else: the private half of a key, whose
public half is in the file. So reading the file lets nobody in. A link is asked for with a
signature, which bridges check themselves, and which is no use at another bridge or a little later.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from abp_bridge.core.answer import DIGEST_KEY_LENGTH
from abp_bridge.core.json_value import as_number, as_object, as_text, parse_json
from abp_bridge.jsonrpc.files import PlaceError, private_folder
from abp_bridge.surfaces.inbox.places import state_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAX_BROWSERS = 16  # of one person: the oldest gives way
MAX_FILE = 64 * 1024  # bytes
SEED_LENGTH = 32  # bytes of a secret
_NAME = "inbox.json"


@dataclass(frozen=True, slots=True)
class Pairing:
    """What is kept.

    Attributes:
        home: The path of the inbox, which only its own pages know.
        key: Of the digests in the history.
        browsers: When each was paired, in seconds since 1970, by the public key of its secret.
    """

    home: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    key: bytes = field(default_factory=lambda: secrets.token_bytes(DIGEST_KEY_LENGTH))
    browsers: Mapping[str, float] = field(default_factory=dict)

    def admits(self, secret: str) -> bool:
        """Whether that is the secret of one of these browsers."""
        return public_key(secret) in self.browsers

    def verifies(self, words: str, signature: str) -> bool:
        """Whether one of these browsers' secrets signed `words`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        for each in self.browsers:
            with contextlib.suppress(InvalidSignature, ValueError):
                key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(each))
                key.verify(bytes.fromhex(signature), words.encode())
                return True
        return False

    def add(self) -> tuple[Pairing, str]:
        """The same with one browser more, the newest `MAX_BROWSERS` of them, and its secret."""
        secret = urlsafe_b64encode(secrets.token_bytes(SEED_LENGTH)).decode()
        browsers = [*self.browsers.items(), (public_key(secret), time.time())]
        return replace(self, browsers=dict(browsers[-MAX_BROWSERS:])), secret

    def remove(self, secret: str) -> Pairing:
        """The same without the browser with that secret."""
        gone = public_key(secret)
        return replace(self, browsers={k: v for k, v in self.browsers.items() if k != gone})


def _key(secret: str) -> Ed25519PrivateKey | None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        return Ed25519PrivateKey.from_private_bytes(urlsafe_b64decode(secret))
    except ValueError:
        return None


def public_key(secret: str) -> str:
    """The public half of a secret; empty where that is none."""
    key = _key(secret)
    return "" if key is None else key.public_key().public_bytes_raw().hex()


def sign(secret: str, words: str) -> str:
    """A signature of `words` by a browser's secret; empty where that is none."""
    key = _key(secret)
    return "" if key is None else key.sign(words.encode()).hex()


def load() -> Pairing | None:
    """What was kept; None where nothing is.

    Raises:
        PlaceError: It is not this user's alone, or not what was written.
    """
    path = f"{state_folder()}/{_NAME}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise PlaceError(f"{path} cannot be read: {problem.strerror}") from None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise PlaceError(f"{path} is not this user's alone: chmod 600 it, or pair anew")
        return _read(file.read(MAX_FILE), path)


def _read(data: bytes, path: str) -> Pairing:
    try:
        members = as_object(parse_json(data))
        key = bytes.fromhex(as_text(members.get("key")))
    except ValueError:
        members, key = {}, b""
    home = as_text(members.get("home"))
    if len(key) != DIGEST_KEY_LENGTH or not home.replace("-", "").replace("_", "").isalnum():
        raise PlaceError(f"{path} is broken: abp-bridge inbox --unpair begins anew")
    browsers = as_object(members.get("browsers"))
    return Pairing(home, key, {name: as_number(when) or 0.0 for name, when in browsers.items()})


def save(pairing: Pairing) -> None:
    """Keep it, for this user alone; whole, or not at all.

    Raises:
        PlaceError: It cannot be written.
    """
    folder = state_folder()
    private_folder(folder)
    kept = {"home": pairing.home, "key": pairing.key.hex(), "browsers": dict(pairing.browsers)}
    made = folder / f"{_NAME}.{os.getpid()}"
    try:
        made.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(made, flags, 0o600), "w") as file:
            json.dump(kept, file)
        made.replace(folder / _NAME)
    except OSError as problem:
        raise PlaceError(f"{folder / _NAME} cannot be written: {problem.strerror}") from None


def forget() -> bool:
    """Forget every browser, and the key. Returns whether there was anything.

    Raises:
        PlaceError: It cannot be removed.
    """
    try:
        (state_folder() / _NAME).unlink()
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise PlaceError(f"{state_folder() / _NAME}: {problem.strerror}") from None
    return True
