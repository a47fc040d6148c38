"""Replaces the paths of this machine by other words. Pure; which paths, its callers say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping


def path_replacer(places: Mapping[str, str]) -> Callable[[str], str]:
    """What replaces paths in a text: the deepest first, each as a whole name: /home/ann, and not
    the beginning of /home/anna, nor a part of an address.

    Args:
        places: paths, and what is written for each.
    """
    whole = {path.rstrip("/"): name for path, name in places.items()}
    patterns = [
        (
            re.compile(rf"(?<![\w.]){re.escape(path)}(?![\w-]|\.\w)"),
            whole[path].replace("\\", r"\\"),
        )
        for path in sorted(whole, key=len, reverse=True)
        if len(path) > 1
    ]

    def replace(text: str) -> str:
        for pattern, name in patterns:
            text = pattern.sub(name, text)
        return text

    return replace
