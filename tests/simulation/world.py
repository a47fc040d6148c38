"""One session by one seed: its faults are drawn, it is played to its end, and what is wrong with it
is said.

From the first byte of a host to the last of an app all is the product's own; of the simulation are
the pipes, the app's process, the page with its browser, and the clock. What an app told is counted
where a legacy host asks for the status: others have no words for what they did not hear.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import anyio

from abp_bridge.apps import stdio
from abp_bridge.bridge import Bridge
from abp_bridge.cli.compose import Composition
from abp_bridge.cli.serve import ProtocolDetector
from abp_bridge.rpc.protocol import INTERNAL_ERROR
from abp_bridge.settings import read_settings

from .apps import App
from .hosts import HOSTS, AcpClient, Habits, Host
from .page import Page
from .person import Asked, Person
from .virtual_loop import VirtualLoop
from .wires import Pipe, ReadEnd, Weather

Json = Any

MAX_CHECKED = 1_000  # messages of one session that the referee looks at
LONGEST = 1_000_000.0  # virtual seconds that a session takes, at most
ENDING = 2.0  # virtual seconds in which the bridge ends after its host: then hosts kill it


@dataclass
class Report:
    """What happened in one session, and what should not have."""

    seed: int
    host: str = ""
    steps: int = 0
    questions: int = 0
    notices: int = 0
    calls: int = 0
    problems: list[str] = field(default_factory=list)


class SimulatedComposition(Composition):
    """The product's own, with a page in memory."""

    def __init__(self, *args: Any, page: Page) -> None:
        super().__init__(*args)
        self.__dict__["page"] = page


class World:
    """Everything of one session."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = Random(seed)
        self.report = Report(seed)
        self.person = Person(rng, ignores=rng.choice([0.0, 0.1, 0.3]))
        self.page = Page(self.person)
        self.habits = Habits(
            *(rng.choice([0.0, 0.0, 0.3]), rng.choice([0.0, 0.2])),
            *(rng.choice([0.0, 0.0, 0.2]), rng.choice([0.0, 0.0, 0.7])),
        )
        self.host_weather = self._weather()
        is_slow = self.host_weather.stalls and self.host_weather.capacity > 300
        burst = rng.choice([5, 300, 3_000]) if is_slow else 5
        crashes = rng.choice([0.0, 0.0, 0.0, 0.1])
        weather = self._weather() if burst < 10 else Weather()  # floods come as fast as they can
        self.app = App(rng, weather, self.person, burst, crashes)
        self.bridges: Iterable[Bridge] = ()
        self.page_mode = rng.choice(["off", "link", "open"])
        self.jumps = rng.choice([0, 0, 1, 3])

    def _weather(self) -> Weather:
        rng = self.rng
        return Weather(
            latency=rng.choice([0.0, 0.02, 0.3]),
            torn=rng.random() < 0.5,
            capacity=rng.choice([64 * 1024, 4_096, 300]),
            stalls=rng.choice([0.0, 0.0, 0.0, 0.5]),
        )

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong that would keep an answer from its question."""
        return not self.jumps and self.habits == Habits() and self.host.is_clear

    async def run(self) -> None:
        rng = self.rng
        to_host, from_host = Pipe(rng, self.host_weather), Pipe(rng, self.host_weather)
        kind = rng.choice(HOSTS)
        self.report.host = kind.__name__
        self.host = kind(rng, self.person, self.page, self.habits, to_host, from_host)
        self.host.on_idle = self._expect_no_question
        self.app.may_omit_call = self.host.together == 1 and not (self.habits.cancels or self.jumps)
        with patch.object(stdio, "spawn", self.app.spawn):
            with anyio.fail_after(LONGEST):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._jump)
                    tasks.start_soon(self.host.peer.run)
                    tasks.start_soon(self._serve, ReadEnd(from_host), to_host, tasks.cancel_scope)
                    await self.host.play(calls=rng.randint(1, 6))
                    await asyncio.Event().wait()  # until the bridge ends
        await self.host.end()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self.report.problems += [f"a task is left: {each.get_coro()}" for each in left]
        self.report.steps = self.app.steps + to_host.steps + from_host.steps

    async def _serve(self, source: ReadEnd, sink: Pipe, everything: anyio.CancelScope) -> None:
        settings = read_settings({}, apps=("stdio:sim",), page=self.page_mode)
        async with anyio.create_task_group() as tasks:
            composition = SimulatedComposition(settings, "serve", tasks, page=self.page)
            detector = ProtocolDetector(composition, source, sink, tasks)
            self.bridges = detector.bridges
            await detector.connection.run()
            left = anyio.current_time()
            self.bridges = list(detector.bridges)
            await detector.close()
            self._expect_no_question()
            tasks.cancel_scope.cancel()
        if anyio.current_time() - left > ENDING and not self.jumps:
            self._complain("the bridge takes too long to end")
        everything.cancel()

    def _expect_no_question(self) -> None:
        for bridge in self.bridges:
            questions: Json = bridge.status()["questions"]
            for each in questions["open"]:
                self._complain(f"a question is open, and its call is over: {each}")

    async def _jump(self) -> None:
        """As after a laptop was asleep."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(self.jumps):
            await asyncio.sleep(self.rng.uniform(0, 60))
            loop.now += self.rng.choice([10.0, 900.0, 8 * 3_600.0])

    def _may_refuse(self, asked: Asked) -> set[str]:
        """The codes that an app may be told of this question all the same."""
        fair = set()
        if "timeout" in asked.request["params"]:
            fair.add("TIMEOUT")
        if asked.is_left_behind or self.app.crashed:
            fair.add("CANCELLED")
        if isinstance(self.host, AcpClient) and self.page_mode == "off":
            fair.add("NOT_SUPPORTED")  # buttons carry no text and no secret
        return fair

    def _complain(self, words: str) -> None:
        self.report.problems.append(words)

    def judge(self) -> None:
        report, host = self.report, self.host
        assert host is not None
        report.questions = len(self.person.asked)
        report.notices = self.app.told
        report.calls = len(host.results)
        in_time = self.app.is_prompt and not self.jumps
        for asked, responses in self.app.ended:
            report.problems += _wrong_answers(asked, responses)
            if self.is_calm and asked.wish == "accept":
                report.problems += _refusals(asked, responses, self._may_refuse(asked))
            if in_time and not responses and not asked.withdrawn:
                report.problems.append(f"question {asked.number} has no answer")
        report.problems += _wrong_responses(host)
        report.problems += _invalid_messages(host)
        report.problems += _silent_losses(host, self.app.told, self.app.crashed)


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
        result = response.get("result")
        if result is None:
            yield f"{about} was answered by an error: {response}"
        elif result.get("success"):
            yield from _invented(asked, result, about)
        elif _is_left(result["metadata"]) - asked.said:
            yield f"{about} was left, and nobody said so: {result}"


def _is_left(metadata: Json) -> set[str]:
    """How a question was left, by whoever answered it."""
    left = {metadata.get("outcome")} & {"declined", "cancelled"}
    return set() if metadata["answeredBy"] == "nobody" else left


def _invented(asked: Asked, result: Json, about: str) -> Iterator[str]:
    answered_by = result["metadata"]["answeredBy"]
    if answered_by == "default" and asked.request["method"] == "elicitation/preference":
        if result["data"] != {"value": asked.request["params"]["default"]}:
            yield f"{about} has a default that is not the app's: {result}"
    elif result["data"] not in asked.given:
        yield f"{about} has an answer that nobody gave: {result}"
    elif answered_by not in ("person", "host-policy", "unknown"):
        yield f"{about} was answered by a person, and is told as {answered_by}'s"


def _wrong_responses(host: Host) -> Iterator[str]:
    for id, messages in host.peer.answered.items():
        if any(each.get("error", {}).get("code") == INTERNAL_ERROR for each in messages):
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


def run(seed: int) -> Report:
    """Play the session of this seed."""
    world = World(seed)
    bugs = _Bugs(world.report)
    logger = logging.getLogger("abp_bridge")
    logger.addHandler(bugs)
    try:
        anyio.run(world.run, backend_options={"loop_factory": VirtualLoop})
        world.judge()
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
