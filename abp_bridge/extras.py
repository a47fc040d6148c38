"""How an extra of this package is installed into the Python that runs it, wherever that is from."""

from __future__ import annotations

import shlex
import sys

PACKAGE = "abp-bridge"


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages into this Python, with uv if it has no
    pip.
    """
    # Only for an error, and it brings all of `email`.
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.util import find_spec

    try:
        required = requires(PACKAGE) or ()
    except PackageNotFoundError:  # run from a folder that nobody installed
        required = ()
    marks = (f"extra == '{extra}'", f'extra == "{extra}"')
    parts = (each.partition(";") for each in required)
    named = [name.strip() for name, _, marker in parts if any(mark in marker for mark in marks)]
    wanted = named or [f"{PACKAGE}[{extra}]"]
    if find_spec("pip") is None:
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])
