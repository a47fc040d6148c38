"""What must hold of every session, whatever its seed: nothing is lost, doubled, invented, mis-told
or left over.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from abp_bridge.rpc.protocol import INTERNAL_ERROR

from .apps import CONTENT
from .hosts import Host, ModernHost
from .person import Asked
from .servers import Server
from .virtual_loop import VirtualLoop
from .world import MAX_CHECKED, MISJUDGED, SERVER_ENDED, Report, World

Json = Any

NO = {"confirmed": False}
OURS = (  # what a proxy says itself, or says otherwise
    "initialize",
    "elicitation/create",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/progress",
)
TOGETHER = 50  # seeds of one test
SEEDS = range(0, 200, TOGETHER)
FAILED = {  # seeds that failed once -> what that was
    439: "a question of a modern server that was open as its host left was called a bug",
    17612: "three rounds that ended by the host's clock were taken for a policy's",
    22746: "the same, with questions that were answered later than the others of their round",
    15264: "an answer that its host kept for two rounds, until its time was over, was called lost",
    24960: "the same, in a round with a link that nobody follows",
    51911: "what a simulated server still wrote at the end was taken for a task of the bridge's",
}


@pytest.mark.parametrize("first", SEEDS)
def test_sessions_keep_their_promises(first: int) -> None:
    """A seed that fails once stays as a test of its own."""
    reports = [run(seed) for seed in range(first, first + TOGETHER)]
    assert [report for report in reports if report.problems] == []
    assert sum(report.questions for report in reports) > TOGETHER


@pytest.mark.parametrize("seed", FAILED)
def test_a_seed_that_failed_once_fails_no_more(seed: int) -> None:
    assert run(seed).problems == [], FAILED[seed]


def test_one_seed_is_one_run() -> None:
    assert run(17) == run(17)


def run(seed: int) -> Report:
    """Play the session of this seed."""
    logger = logging.getLogger("abp_bridge")
    with tempfile.TemporaryDirectory() as folder:
        world = World(seed, Path(folder))
        logger.addHandler(bugs := _Bugs(world.report))
        try:
            anyio.run(world.run, backend_options={"loop_factory": VirtualLoop})
            judge(world)
        except Exception as problem:  # whatever it is, its seed is told
            world.report.problems.append(f"the session breaks off: {problem!r}")
        finally:
            logger.removeHandler(bugs)
    return world.report


class _Bugs(logging.Handler):
    """Whatever the product logs as an error is a problem of its session."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.ERROR)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self._report.problems.append(f"the bridge logs a bug: {record.getMessage()}")


def judge(world: World) -> None:
    """Say what is wrong with it."""
    report, host, app = world.report, world.host, world.app
    in_time = app.is_prompt and not world.jumps
    for asked, responses in app.ended:
        report.answers.update(_answered_by(responses))
        report.problems += _wrong_answers(asked, responses)
        if world.is_calm and asked.wish == "accept":
            report.problems += _refusals(asked, responses, world.may_refuse(asked))
        if in_time and not responses and not asked.withdrawn:
            report.problems.append(f"question {asked.number} has no answer")
    for asked, response in world.agent.own:
        report.problems += _wrong_answers(asked, _as_abp(response))
    callee = world.server or app
    if world.server is not None:
        report.problems += _wrong_for_server(world, world.server)
    if "all" in world.confirm or (world.confirm and callee.is_destructive):
        report.problems += _wrong_leaves(world.leaves, callee.begun)
    report.problems += _torn_files(world.folder, world.room)
    report.problems += _wrong_responses(host)
    report.problems += _invalid_messages(host)
    report.problems += _silent_losses(host, app.told, app.crashed)


def _wrong_for_server(world: World, server: Server) -> Iterator[str]:
    """What it was answered that is not so, and what did not pass."""
    yield from _wrong_passages(world.host, server, world.is_calm)
    for each in server.peer.answered.get("nobody's", []):
        yield f"the server is answered what it did not ask: {each}"
    for asked, responses in server.asked:
        about = f"the server's question {asked.number} ({asked.wish})"
        if len(responses) > 1:
            yield f"{about} has {len(responses)} answers"
        for each in responses:
            yield from _untrue_for_server(world, server, asked, each.get("result"), about)
        in_time = world.is_calm and not server.is_modern and not server.crashed
        if in_time and not responses:
            yield f"{about} has no answer"


def _untrue_for_server(
    world: World, server: Server, asked: Asked, result: Json, about: str
) -> Iterator[str]:
    action, content = (result or {}).get("action"), (result or {}).get("content")
    said = {
        "accept": [each for each in asked.said if each[1:] == ("accepted", content)],
        "decline": [each for each in asked.said if each[1] == "declined" or each[2] == NO],
        "cancel": [("nobody", "cancelled", None)],
    }.get(str(action))
    is_deed = action == "accept" and server.is_destructive and content != NO
    if said is None:
        yield f"{about} was answered by no answer: {result}"
    elif not said:
        yield f"{about} has an answer that nobody gave: {result}"
    elif action == "accept" and not content:
        yield f"{about} has an answer that nobody gave, and nothing is in it: {result}"
    elif is_deed and all(who != "person" for who, *_ in said):
        yield f"{about} cannot be undone, and no person confirmed it: {result}"
    elif action != "cancel" and _teller(result) == "person" not in {who for who, *_ in said}:
        yield f"{about} is a person's, and a policy gave it: {result}"
    elif world.is_calm and not server.crashed and action == "cancel":
        if asked.wish == "decline" and [each for each in asked.said if each[1] == "declined"]:
            yield f"{about} was a no, and is told as nobody's"
        is_misjudged = asked.data == NO and _teller(result) == "host-policy"  # always-preset
        if asked.wish == "accept" and world.can_show and not (is_misjudged or asked.is_late):
            yield f"{about}: the person would have answered, and the server was told {result}"


def _teller(result: Json) -> Json:
    return result.get("_meta", {}).get("abp", {}).get("answeredBy")


def _answered_by(responses: list[Json]) -> Iterator[str]:
    for each in responses:
        if "result" in each:
            yield each["result"]["metadata"]["answeredBy"]


def _refusals(asked: Asked, responses: list[Json], fair: set[str]) -> Iterator[str]:
    """What an app was told in place of an answer that nothing kept from it."""
    for response in responses:
        error = response.get("result", {}).get("error")
        if error is not None and error["code"] not in fair:
            words = "the person would have answered, and the app was told"
            yield f"question {asked.number}: {words} {error}"


def _wrong_answers(asked: Asked, responses: list[Json]) -> Iterator[str]:
    about = f"question {asked.number} ({asked.request['method']}, {asked.wish})"
    if len(responses) > 1:
        yield f"{about} has {len(responses)} answers"
    for response in responses:
        if "result" not in response:
            yield f"{about} was answered by an error: {response}"
        else:
            yield from _untrue(asked, response["result"], about)


def _untrue(asked: Asked, result: Json, about: str) -> Iterator[str]:
    """What is told of an answer, and is not so."""
    metadata, data = result["metadata"], result.get("data")
    answered_by, evidence = metadata["answeredBy"], metadata.get("evidence")
    outcome = "accepted" if result.get("success") else metadata.get("outcome")
    if answered_by == "default":
        if data != {"value": asked.request["params"].get("default")}:
            yield f"{about} has a default that is not the app's: {result}"
        return
    if outcome not in ("accepted", "declined", "cancelled") or answered_by == "nobody" != outcome:
        return
    destroys = asked.request["params"].get("destructive") and data == {"confirmed": True}
    who = {each[0] for each in asked.said if each[1:] == (outcome, data)}
    if not who:
        yield f"{about} has an answer that nobody gave: {result}"
    elif answered_by == "person" and "person" not in who:
        yield f"{about} is a person's, and a policy gave it: {result}"
    elif answered_by == "host-policy" and "policy" not in who and evidence not in MISJUDGED:
        yield f"{about} is a policy's, and a person gave it: {result}"
    elif answered_by not in ("person", "host-policy", "unknown"):
        yield f"{about} is told as {answered_by}'s: {result}"
    elif destroys and "person" not in who:
        yield f"{about} cannot be undone, and no person confirmed it: {result}"


def _as_abp(response: Json) -> list[Json]:
    """An agent's own question that the bridge asked; what is no accept says no more than that."""
    result = (response or {}).get("result", {})
    if "_meta" not in result:  # its turn is over, or its client showed it
        return []
    is_accepted = result["action"] == "accept"
    said = {"answeredBy": result["_meta"]["abp"]["answeredBy"] if is_accepted else "nobody"}
    return [{"result": {"success": is_accepted, "data": result.get("content"), "metadata": said}}]


def _wrong_leaves(leaves: list[Asked], begun: set[str]) -> Iterator[str]:
    for asked in leaves:
        is_allowed = ("person", "accepted", {"confirmed": True}) in asked.said
        if asked.request["params"]["for"] in begun and not is_allowed:
            yield f"call {asked.number} was made, and no person allowed it: {asked.said}"


def _torn_files(folder: Path, room: int | None) -> Iterator[str]:
    for each in folder.glob("results/**/*.png"):
        if each.read_bytes() != CONTENT:
            yield f"a saved result is torn: {each.name}"
    for each in folder.glob("trace.jsonl*"):
        text = each.read_text()
        lines = text.rstrip("\n").split("\n")
        for line in lines if room is None else lines[:-1]:
            json.loads(line)
        if "hunter-" in text:
            yield "a secret is in the recording"


def _is_bug(response: Json) -> bool:
    error = response.get("error", {})
    return error.get("code") == INTERNAL_ERROR and SERVER_ENDED not in error["message"]


def _wrong_responses(host: Host) -> Iterator[str]:
    for id, messages in host.peer.answered.items():
        if any(map(_is_bug, messages)):
            yield f"the host's request {id} met a bug: {messages}"
        if len(messages) > 1:
            yield f"the host's request {id} has {len(messages)} responses"


def _invalid_messages(host: Host) -> Iterator[str]:
    if len(host.peer.lines) > MAX_CHECKED:
        return
    try:
        host.referee(host.peer.lines).check()
    except Exception as problem:
        yield f"the bridge said what is not valid: {problem!r}"


def _silent_losses(host: Host, told: int, crashed: int) -> Iterator[str]:
    """What an app told, and its host neither heard nor read of."""
    if not host.status or crashed:
        return
    words = json.dumps([each for each in host.peer.received if "method" in each])
    heard = len(set(re.findall(r"notice-(\d+)", words)))
    lost = sum(
        int(each) for each in re.findall(r'"(?:replacedByNewer|dropped)": (\d+)', host.status)
    )
    if told - heard > lost:
        yield f"{told} notices were told, {heard} heard and {lost} counted as lost"


def _wrong_passages(host: Host, server: Server, is_calm: bool) -> Iterator[str]:
    """What did not pass as it was said: of a modern side, which is translated, what is in a result
    and the logs, else one by one; and in a calm session, what was said and did not come.
    """
    made = [json.dumps(each["content"][0]) for each in server.said]
    for messages in host.peer.answered.values():
        for each in messages:
            content = (each.get("result") or {}).get("content") or []
            if content and "isError" not in each["result"] and json.dumps(content[0]) not in made:
                yield f"a result is not the server's: {content[0]}"
    is_translated = server.is_modern or isinstance(host, ModernHost)
    passes = _is_log if is_translated else _passes
    ways = ((host.peer, server.peer), (server.peer, host.peer))
    for speaker, hearer in ways:
        said = [_plain(each) for who, each in speaker.lines if who == "host" and passes(each)]
        for each in map(_plain, filter(passes, hearer.received)):
            if each in said:
                said.remove(each)
            else:
                yield f"a message is not what was said, or comes twice: {each}"
        if is_calm and host.hears_logs and not server.crashed:
            yield from (f"a message does not come: {each}" for each in said if _must_come(each))


def _passes(message: Json) -> bool:
    """Whether a proxy has no business with it."""
    if message.get("method") in OURS:
        return False
    result = message.get("result") or {}
    return "method" in message or ("action" not in result and "content" not in result)


def _is_log(message: Json) -> bool:
    return bool(message.get("method") == "notifications/message")


def _must_come(message: Json) -> bool:
    """A call may be refused, and an answer may come after its end."""
    return bool(message.get("method", "tools/call") != "tools/call")


def _plain(message: Json) -> Json:
    return {name: value for name, value in message.items() if name != "jsonrpc"}
