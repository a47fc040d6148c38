"""Whole sessions by seed: nothing is lost, doubled, invented or left over; and the simulation finds
what is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import anyio.lowlevel
import pytest

from abp_bridge.hosts.mcp.parked_call import ParkedCall
from abp_bridge.rpc.connection import JsonRpcConnection
from abp_bridge.rpc.protocol import IncomingMessage, Response

from .world import Report, run

Json = Any

TOGETHER = 50  # seeds of one test
SEEDS = range(0, 200, TOGETHER)
ENOUGH = 200  # seeds in which a planted bug has to show


@pytest.mark.parametrize("first", SEEDS)
def test_sessions_keep_their_promises(first: int) -> None:
    """A seed that fails once stays as a test of its own."""
    reports = [run(seed) for seed in range(first, first + TOGETHER)]
    assert [report for report in reports if report.problems] == []
    assert sum(report.questions for report in reports) > TOGETHER


def test_one_seed_is_one_run() -> None:
    assert run(17) == run(17)


# --- planted bugs ---

_respond = JsonRpcConnection.respond
_enqueue = JsonRpcConnection._enqueue
_dispatch = JsonRpcConnection._dispatch
_ask = ParkedCall.ask


def _lose_an_answer(self: JsonRpcConnection, id: Json, result: Json, *more: Json) -> None:
    """What is answered while two requests of ours wait goes nowhere."""
    if len(self._waiting) == 2 and "metadata" in result:
        self.discard_request(id)
    else:
        _respond(self, id, result, *more)


def _answer_twice(self: JsonRpcConnection, key: Json, data: bytes, **how: Json) -> None:
    """A response that does not leave at once leaves again."""
    _enqueue(self, key, data, **how)
    if self._tail and key[0] == "response":
        _enqueue(self, self._new_key("response"), data, **how)


def _swap_answers(self: JsonRpcConnection, event: IncomingMessage) -> None:
    """A response goes to whoever waits longest."""
    if isinstance(event, Response) and event.error is None:
        longest: Json = next(iter(self._waiting))
        event = Response(longest, event.result, None)
    _dispatch(self, event)


async def _race(self: ParkedCall, *args: Json) -> Json:
    """Two questions that are asked in one turn get one number."""
    asked = self.asked
    await anyio.lowlevel.checkpoint()
    self.asked = asked
    return await _ask(self, *args)


def _plant(owner: type, name: str, bug: object) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patch.object(owner, name, bug)


PLANTED: dict[str, tuple[Callable[[], AbstractContextManager[object]], str]] = {
    "a lost answer": (_plant(JsonRpcConnection, "respond", _lose_an_answer), "has no answer"),
    "a doubled answer": (_plant(JsonRpcConnection, "_enqueue", _answer_twice), "has 2 answers"),
    "a swapped answer": (_plant(JsonRpcConnection, "_dispatch", _swap_answers), "nobody gave"),
    "a race": (_plant(ParkedCall, "ask", _race), "the person would have answered"),
    "an uncounted loss": (
        _plant(JsonRpcConnection, "lost_notifications", lambda self, **replaced: {}),
        "counted as lost",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    plant, words = PLANTED[bug]
    with plant():
        found = next((seed for seed in range(ENOUGH) if _shows(run(seed), words)), None)
    assert found is not None, f"{ENOUGH} seeds do not show {bug}"
    assert not _shows(run(found), words), f"seed {found} shows {bug} without it"


def _shows(report: Report, words: str) -> bool:
    return any(words in each for each in report.problems)
