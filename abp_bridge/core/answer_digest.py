"""A keyed digest of an answer: by it whoever has the key can check what was answered, and nobody
else can guess a yes or a no.
"""

from __future__ import annotations

import hashlib
import hmac
import json

from abp_bridge.core.json_value import JsonObject

KEY_LENGTH = 32  # bytes, as long as the digest


def digest(key: bytes, content: JsonObject) -> str:
    """The digest of an answer by field name, with the name of its algorithm before it."""
    said = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    data = said.encode(errors="surrogatepass")
    return f"hmac-sha256:{hmac.new(key, data, hashlib.sha256).hexdigest()}"
