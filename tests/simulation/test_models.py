"""A model of the person's in the table of pairs: whoever asks it, whatever becomes of it, and
whatever its person says. Who asks has exactly one answer, it is nobody's invention, and a model is
sent what its person approved and nothing else.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import anyio
import anyio.to_thread
import pytest
from support.pairs import ABP, MCP, QUESTIONS

from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.surface import Surface
from abp_bridge.models import targets
from abp_bridge.models.agent import AgentError, AgentErrorCode, AgentResponse, Cost

from .answering_sides import AcpButtons, FormHost, ModernFormHost, Side
from .asking_sides import ASKERS, ModernServer
from .pair import Session, play
from .virtual_loop import run_here

Json = Any

SAID = "Nobody else could have said this."
SAMPLING = ((ABP, "sampling/create"), (MCP, "sampling/createMessage"))
FAULTS = {
    "answers": None,
    "is late": AgentErrorCode.TIMEOUT,
    "is cut": AgentErrorCode.TRUNCATED,
    "refuses": AgentErrorCode.REFUSED,
    "dies": AgentErrorCode.AGENT_DIED,
    "cannot be reached": AgentErrorCode.NETWORK,
}
PERSONS = {  # outcome, decision
    "sends it": ("accepted", "send"),
    "sends all": ("accepted", "send-all"),
    "does not send it": ("accepted", "refuse"),
    "declines": ("declined", "send"),
    "never looks": ("timed out", "send"),
    "leaves": ("left", "send"),
}
SENDS = ("sends it", "sends all")
HOSTS = {"legacy": FormHost, "modern": ModernFormHost, "ACP": AcpButtons}
LABELS = {"send": "Send it", "send-all": "Send it, and all that", "refuse": "Do not send it"}


class Model:
    """A model that does one thing, seven seconds after it was asked."""

    def __init__(self, fault: AgentErrorCode | None) -> None:
        self._fault = fault
        self.sent: list[Json] = []
        self.open = 0

    def find_obstacle(self, *, images: bool) -> str:
        return ""

    async def start(self, options: Json) -> str:
        self.open += 1
        return "s"

    async def send(self, session: str, messages: Json, *, timeout_ms: int, **how: Json) -> Json:
        self.sent.append(messages)
        await anyio.sleep(timeout_ms / 1_000 if self._fault is AgentErrorCode.TIMEOUT else 7.0)
        if self._fault is not None:
            raise AgentError(self._fault, "so it is")
        return AgentResponse(SAID)

    async def stop(self, session: str) -> None:
        self.open -= 1

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        return None


# Whose person does not send it has a model that is not asked, whatever it would do.
@pytest.mark.parametrize(
    ("person", "fault"),
    [(each, fault) for each in PERSONS for fault in (FAULTS if each in SENDS else ["answers"])],
)
@pytest.mark.parametrize("host", HOSTS)
def test_who_asks_a_model_has_one_answer_that_nobody_made_up(
    host: str, person: str, fault: str
) -> None:
    wrong: list[str] = []
    outcome, decision = PERSONS[person]
    for name, asker in ASKERS.items():
        for pair in filter(asker.asks_for, SAMPLING):
            model = Model(FAULTS[fault])
            settings = {"sampling": "cli:claude"}
            side = Side(HOSTS[host], SurfaceVariant(Surface.SAMPLING), settings)
            with (
                patch.object(targets, "make_agent", lambda *how, model=model, **more: model),
                patch.object(anyio.to_thread, "run_sync", run_here),
            ):
                meant = {"decision": LABELS[decision] if host == "ACP" else decision}
                session = play(asker, QUESTIONS[pair](), side, outcome, meant, "")
            sends = person in SENDS
            whole = sends and fault == "answers"
            found = [*session.problems, *judge(session, model, sends=sends, whole=whole)]
            # To a modern server there is no word for "no": its call ends.
            least = int(whole or not issubclass(asker, ModernServer))
            if not least <= len(session.answers) <= 1:
                found.append(f"there were {len(session.answers)} answers")
            wrong += [f"{name}, {pair[1]}: {each}" for each in found]
    assert wrong == []


def judge(session: Session, model: Model, *, sends: bool, whole: bool) -> list[str]:
    wrong = []
    if len(model.sent) != int(sends):
        wrong.append(f"the model was asked {len(model.sent)} times")
    if model.open:
        wrong.append("a turn was left open")
    if sends and "nobody answered" in str(session.answers):
        wrong.append(f"its person was said to be late: {session.answers}")
    if (SAID in str(session.answers)) != whole:
        wrong.append(f"it was answered {session.answers}")
    is_yes = [each for each in session.answers if is_success(each)]
    if is_yes and not whole:
        wrong.append(f"it was told of success: {is_yes}")
    return wrong


def is_success(answer: Json) -> bool:
    result = answer.get("result") or {}
    return bool(result.get("success") or result.get("content"))
