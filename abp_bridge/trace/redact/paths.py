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
    names = {path.rstrip("/"): name for path, name in places.items() if len(path) > 1}
    deepest = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or r"(?!)"
    pattern = re.compile(rf"(?<![\w.])(?:{deepest})(?![\w-]|\.\w)")
    return lambda text: pattern.sub(lambda found: names[found[0]], text)
