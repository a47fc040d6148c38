"""JSON as Python has it: what comes from outside is one of these until somebody has looked
at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
JsonObject = Mapping[str, JsonValue]
Json = Any
