"""The user's answer to each question of the table of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.pairs import ABP, ACP, MCP, PRESUMED

Json = Any

CONTENT = b"hi"
FILE = {"content": "aGk=", "mimeType": "image/png", "encoding": "base64"}
ALL = {"name": "Ada", "size": "c"}

_FORMS: Mapping[str, Json] = {
    "a text": {"name": "Ada"},
    "a number": {"count": 1.5},
    "a lone yes or no": {"ok": True},
    "a lone choice": {"size": "f"},
    "a lone choice of several": {"sizes": ["a", "f"]},
    "several fields": ALL,
    "a secret": {"password": "hunter2"},
}
# What a person answers, by field name.
MEANT: Mapping[tuple[str, str], Json] = {
    (ABP, "elicitation/input: a text"): {"value": "Ada"},
    (ABP, "elicitation/input: a text with a default"): {"value": "Ada"},
    (ABP, "elicitation/input: a form"): ALL,
    (ABP, "elicitation/input: an object in an object"): {"at": ALL},
    (ABP, "elicitation/input: a secret"): {"value": "hunter2"},
    (ABP, "elicitation/preference"): {"value": "a"},
    (ABP, "elicitation/confirm"): {"confirmed": True},
    (ABP, "elicitation/confirm: destructive"): {"confirmed": True},
    (ABP, "elicitation/select"): {"selected": "e"},
    (ABP, "elicitation/select: several"): {"selected": ["b", "e"]},
    (ABP, "elicitation/resource"): {"file": FILE},
    (ABP, "sampling/create"): {"result": "That one."},
    **{(who, what): meant for who in (MCP, PRESUMED) for what, meant in _FORMS.items()},
    (MCP, "an address (url)"): {"confirmed": True},
    (MCP, "sampling/createMessage"): {"result": "That one."},
    (ACP, "a permission of four options"): {"answer": "allow_always"},
    (ACP, "a permission of six options"): {"answer": "another"},
}
