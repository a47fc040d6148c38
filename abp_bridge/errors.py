"""The base class of all errors a caller may catch, and what an error may suggest."""

from __future__ import annotations

import sys


class AbpBridgeError(Exception):
    """An error of this package. Its message says what was wrong, in words a person can act on."""


class LocalProtocolError(AbpBridgeError):
    """We were about to break a rule of a protocol. Always a bug of ours."""


class RemoteProtocolError(AbpBridgeError):
    """The other side broke a rule; `code` is the ABP error code."""

    def __init__(self, message: str, code: str = "INVALID_PARAMS") -> None:
        super().__init__(message)
        self.code = code


def only_cause(problem: BaseException) -> BaseException:
    """What is in a group of one exception, as task groups raise it; else `problem` itself."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


def describe_bug(problem: BaseException) -> str:
    """The sentence for whoever meets a bug of ours: of several, the first. The log has the rest."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return f"abp-bridge has a bug: {type(problem).__name__}. Please report it."


PACKAGE = "abp-bridge"


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages into this Python, by pip or uv."""
    # Only for an error, and it brings all of `email`.
    import shlex
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
