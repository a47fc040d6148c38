"""The one error of a replay: what the bridge does otherwise than the fixture shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from abp_bridge.core.json_value import JsonValue
from abp_bridge.errors import AbpBridgeError
from abp_bridge.replay.match import excerpt

MAX_SHOWN = 400  # characters of a message in a complaint


class ReplayMismatchError(AbpBridgeError):
    """The bridge does not do what the fixture shows, or the fixture cannot be played.

    `line` is the fixture's, 0 where it is none of them; `expected` and `got` are what was held
    against each other; `details` are differences, a line each: where none are given, what the
    bridge said.
    """

    def __init__(
        self,
        problem: str,
        line: int = 0,
        details: Iterable[str] | None = None,
        expected: JsonValue = None,
        got: JsonValue = None,
    ) -> None:
        super().__init__(problem)
        self.line = line
        said = () if got is None else (excerpt(got, MAX_SHOWN),)
        self.details = said if details is None else tuple(details)
        self.expected = expected
        self.got = got


@contextmanager
def as_mismatch(attempt: str, hint: str = "", line: int = 0) -> Iterator[None]:
    """Turn what the system refuses, or somebody who cannot do it, into a mismatch that says what
    was attempted.
    """
    try:
        yield
    except (OSError, ValueError) as problem:
        words = str(problem) or "it took too long"
        raise ReplayMismatchError(f"{attempt}: {words}{hint}", line) from None
