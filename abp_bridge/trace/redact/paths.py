"""Replaces the paths of this machine by other words. Pure; which paths, its callers say."""

from __future__ import annotations

import re
from collections.abc import Mapping


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
