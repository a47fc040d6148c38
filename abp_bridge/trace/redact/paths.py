"""Replaces the paths of this machine by other words. Pure; which paths, its callers say."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abp_bridge.core.json_value import JsonValue


class PathReplacer:
    """Paths, the deepest first, each as a whole name: /home/ann, and not the beginning of
    /home/anna, nor a part of an address.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        """`places` are paths, and what is written for each."""
        whole = {path.rstrip("/"): name for path, name in places.items()}
        self._patterns = [
            (
                re.compile(rf"(?<![\w.]){re.escape(path)}(?![\w-]|\.\w)"),
                whole[path].replace("\\", r"\\"),
            )
            for path in sorted(whole, key=len, reverse=True)
            if len(path) > 1
        ]

    def replace(self, text: str) -> str:
        """`text` without the paths."""
        for pattern, name in self._patterns:
            text = pattern.sub(name, text)
        return text

    def replace_all(self, value: JsonValue) -> JsonValue:
        """`value` without the paths in its texts; the names of its members stay."""
        if isinstance(value, str):
            return self.replace(value)
        if isinstance(value, Mapping):
            return {name: self.replace_all(each) for name, each in value.items()}
        return list(map(self.replace_all, value)) if isinstance(value, list) else value


def replace_paths(value: JsonValue, places: Mapping[str, str]) -> JsonValue:
    """`value` with other words for the paths in it, and nothing else changed.

    Args:
        value: any JSON value.
        places: paths, and what is written for each.
    """
    return PathReplacer(places).replace_all(value)
