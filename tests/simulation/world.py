"""One session by one seed: its faults are drawn, it is played to its end, and what is wrong with it
is said.

From the first byte of a host to the last of an app all is the product's own; of the simulation are
the pipes, the processes, the page with its browser, and the clock. What an app told is counted
where a legacy host asks for the status: others have no words for what they did not hear.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import anyio

from abp_bridge.bridge import Bridge
from abp_bridge.bridge.elicitor import Elicitor
from abp_bridge.bridge.status import describe_questions
from abp_bridge.cli.acp import _make_endpoint
from abp_bridge.cli.compose import Composition
from abp_bridge.cli.serve import ProtocolDetector
from abp_bridge.proxies.acp import mcp_endpoint
from abp_bridge.proxies.acp.proxy import run_proxy
from abp_bridge.proxies.mcp.eras import translated
from abp_bridge.proxies.mcp.policy import Policy as ServerPolicy
from abp_bridge.proxies.mcp.proxy import run_proxy as run_server_proxy
from abp_bridge.rpc import subprocess
from abp_bridge.settings import read_settings

from .apps import App
from .hosts import HOSTS, Agent, Habits, LegacyHost, ModernHost
from .page import PASSWORD, Page, Program
from .person import POLICIES, Asked, Person, Policy
from .servers import QUESTIONS, SERVED, Server
from .virtual_loop import VirtualLoop
from .wires import Pipe, ReadEnd, Weather

Json = Any

MAX_CHECKED = 1_000  # messages of one session that the referee looks at
LONGEST = 1_000_000.0  # virtual seconds that a session takes, at most
LIKELY = {  # how likely it is that a host has each habit, and how strong
    "cancels": [0, 0.3],
    "doubles": [0, 0.2],
    "nonsense": [0, 0.2],
    "errors": [0, 0, 0.2],
    "leaves": [0, 0.7, 0.7],
}
SERVER_ENDED = "the simulated server ended"  # what its host hears then of each open request
ENDING = 2.0  # virtual seconds in which the bridge ends after its host: then hosts kill it
MISJUDGED = ("always-preset",)  # rows that take a person for a policy, and are meant to


@dataclass
class Report:
    """What happened in one session, and what should not have.

    `answers` are counted by whom they are told to come from, `faults` by their kind.
    """

    seed: int
    host: str = ""
    steps: int = 0
    questions: int = 0
    notices: int = 0
    calls: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another session in."""
        for name in ("steps", "questions", "notices", "calls", "answers", "faults"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class SimulatedComposition(Composition):
    """The product's own, with a page in memory; `on_bridge` hears of each bridge, `on_elicitor` of
    who asks for a server.
    """

    def __init__(
        self,
        *args: Any,
        page: Page,
        on_bridge: Callable[[Bridge], None],
        on_elicitor: Callable[[Elicitor], None],
    ) -> None:
        super().__init__(*args)
        self.__dict__["page"] = page
        self._on_bridge = on_bridge
        self._on_elicitor = on_elicitor

    def make_mcp_elicitor(self, connection: Json, find_parked: Json) -> Elicitor:
        elicitor = super().make_mcp_elicitor(connection, find_parked)
        self._on_elicitor(elicitor)
        return elicitor

    def make_bridge(self, *host: Any) -> Bridge:
        bridge = super().make_bridge(*host)
        self._on_bridge(bridge)
        return bridge


class Connections(asyncio.Queue[tuple[ReadEnd, Pipe]]):
    """The socket that a proxied agent's server connects to."""

    def close(self) -> None: ...


class World:
    """Everything of one session."""

    def __init__(self, seed: int, folder: Path) -> None:
        rng = self.rng = Random(seed)
        self.report = Report(seed)
        self.folder = folder
        self.person = Person(rng, ignores=rng.choice([0.0, 0.1, 0.3]))
        self.sitter = self._sitter()
        self.program = Program(self._sitter()) if rng.random() < 0.2 else None
        self.page = Page(self.person, self.program)
        sitters = [self.sitter, *([self.program.sitter] if self.program else [])]
        self.has_persons = all(each is self.person for each in sitters)
        trouble = rng.choice([0.0, 0.0, 1.0])
        habits: Json = {name: trouble * rng.choice(each) for name, each in LIKELY.items()}
        self.habits = Habits(faults=self.report.faults, **habits)
        self.host_weather = self._weather(is_timed=not self.has_persons)
        is_slow = self.host_weather.stalls and self.host_weather.capacity > 300
        burst = rng.choice([5, 300, 3_000]) if is_slow else 5
        crashes = rng.choice([0.0, 0.0, 0.0, 0.1])
        # Floods come as fast as they can.
        weather = self._weather() if burst < 10 and rng.random() < 0.5 else Weather()
        self.app = App(rng, weather, self.person, burst, crashes)
        self.bridges: list[Bridge] = []
        self.elicitors: list[Elicitor] = []
        self.page_mode = rng.choice(["off", "link", "open"])
        self.confirm = rng.choice([(), (), ("all",), ("destructive",)])
        self.leaves: list[Asked] = []
        self.is_recorded = burst < 10 and rng.random() < 0.2
        self.room = rng.choice([None, None, 300, 30])  # bytes that a file may have
        self.jumps = rng.choice([0, 1, 3]) if self.has_persons and trouble else 0
        self.connections = Connections()

    def _sitter(self) -> Person:
        """Who sits somewhere: mostly the person."""
        if self.rng.random() < 0.7:
            return self.person
        return Policy(self.person, self.rng, self.rng.choice(list(POLICIES)))

    def _weather(self, *, is_timed: bool = False) -> Weather:
        """`is_timed` where a policy's time is taken: then nothing on the way is slow."""
        rng = self.rng
        return Weather(
            latency=0.0 if is_timed else rng.choice([0.0, 0.02, 0.3]),
            torn=rng.random() < 0.5,
            capacity=rng.choice([64 * 1024, 4_096, 300]),
            stalls=0.0 if is_timed else rng.choice([0.0, 0.0, 0.0, 0.5]),
            faults=self.report.faults,
        )

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong that would keep an answer from its question."""
        calm = self.habits == Habits() and self.host.is_clear
        return calm and not self.jumps and self.has_persons

    async def run(self) -> None:
        rng = self.rng
        to_host, from_host = Pipe(rng, self.host_weather), Pipe(rng, self.host_weather)
        kind = rng.choice(SERVED if self.report.seed % 4 == 3 else HOSTS)  # a quarter has a server
        self.report.host = kind.__name__
        self.host = kind(rng, self.sitter, self.page, self.habits, to_host, from_host)
        self.host.on_idle = self._expect_no_question
        self.host.prepare = self._prepare
        self.to_agent, self.from_agent = Pipe(rng, Weather()), Pipe(rng, Weather())
        agent = (rng, self.person, self.page, Habits(), self.to_agent, self.from_agent)
        self.agent = Agent(*agent, person=self.person, connect=self._connect)
        pipes = self.to_agent, self.from_agent
        # A program at the questions API is shown one field.
        questions = QUESTIONS[:-1] if self.program is not None else QUESTIONS
        server = Server(rng, self.person, pipes, self.app.crashes, questions)
        self.server = server if kind.has_server else None
        self.app.may_omit_call = self.host.together == 1 and not (self.habits.cancels or self.jumps)
        with self._surroundings(), anyio.fail_after(LONGEST):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._jump)
                tasks.start_soon(self.host.peer.run)
                if kind.is_proxied:
                    tasks.start_soon(self.agent.peer.run)
                if self.server is not None:
                    tasks.start_soon(self.server.peer.run)
                tasks.start_soon(self._serve, ReadEnd(from_host), to_host, tasks.cancel_scope)
                await self.host.play(calls=rng.randint(1, 6))
                await asyncio.Event().wait()  # until the bridge ends
        for each in (self.host, self.agent, self.agent.server, self.server):
            if each is not None:
                await each.end()
        if self.program is not None:
            await asyncio.gather(*self.program.end(), return_exceptions=True)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self.report.problems += [f"a task is left: {each.get_coro()}" for each in left]
        report, app = self.report, self.app
        report.steps = app.steps + to_host.steps + from_host.steps
        if self.server is not None:
            self.report.faults["server crash"] += self.server.crashed
        report.questions, report.notices = len(self.person.asked), app.told
        report.calls = len(self.host.results)
        report.faults["app crash"] += app.crashed

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """No process, no socket, and a disk with so much room."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        with ExitStack() as stack:
            stack.enter_context(patch.object(subprocess, "spawn", self.app.spawn))
            sockets: Json = {"listen": lambda path: self.connections, "accept": Connections.get}
            stack.enter_context(patch.multiple(mcp_endpoint, **sockets))
            if self.room is not None:
                self.report.faults["full disk"] += 1
                stack.callback(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, limits[1]))
            yield

    def _prepare(self) -> Json:
        """The parameters of the next call, and that its leave may be asked for."""
        if not self.confirm:
            return {}
        request = {"method": "leave", "params": {"for": "#"}}
        self.leaves.append(asked := self.person.expect(request, {"confirmed": True}))
        return asked.request["params"]

    def _connect(self, token: str) -> tuple[Pipe, Pipe]:
        up, down = Pipe(self.rng, Weather()), Pipe(self.rng, Weather())
        up.write_nowait(token.encode() + b"\n")
        self.connections.put_nowait((ReadEnd(up), down))
        return down, up

    async def _serve(self, source: ReadEnd, sink: Pipe, everything: anyio.CancelScope) -> None:
        async with anyio.create_task_group() as tasks:
            made: Json = {"page": self.page, "on_bridge": self.bridges.append}
            made["on_elicitor"] = self.elicitors.append
            command, serve = "serve", self._serve_bridge
            if self.host.is_proxied:
                command, serve = "acp", self._serve_proxy
            elif self.host.has_server:
                command, serve = "mcp", self._serve_server
            composition = SimulatedComposition(self._settings(), command, tasks, **made)
            client = composition.tap("host")(source, sink)
            left = await serve(composition, client, tasks)
            self._expect_no_question()
            tasks.cancel_scope.cancel()
        if anyio.current_time() - left > ENDING and not self.jumps:
            self.complain("the bridge takes too long to end")
        everything.cancel()

    def _settings(self) -> Json:
        more: Json = {"output_dir": str(self.folder / "results"), "confirm": self.confirm}
        if self.is_recorded:
            more["record"] = str(self.folder / "trace.jsonl")
        if self.program is not None:
            order = ("questions-api", "host", *(["page"] if self.page_mode != "off" else []))
            more |= {"questions_api": 0, "questions_password": PASSWORD, "ask_on": order}
        return read_settings({}, apps=("stdio:sim",), page=self.page_mode, **more)

    async def _serve_bridge(
        self, composition: Composition, client: Json, tasks: anyio.abc.TaskGroup
    ) -> float:
        """Serve until the host ends: when it did."""
        source, sink = client
        detector = ProtocolDetector(composition, source, sink, tasks)
        await detector.connection.run()
        left = anyio.current_time()
        await detector.close()
        return left

    async def _serve_proxy(
        self, composition: Composition, client: Json, tasks: anyio.abc.TaskGroup
    ) -> float:
        tasks.start_soon((endpoint := _make_endpoint(composition)).run)
        await run_proxy(
            client,
            (ReadEnd(self.from_agent), self.to_agent),
            prefix="abp-sim-",
            agent_name="agent",
            make_elicitor=composition.make_elicitor,
            page=composition.page,
            endpoints=endpoint,
        )
        left = anyio.current_time()
        await endpoint.close()
        return left

    async def _serve_server(
        self, composition: Composition, client: Json, tasks: anyio.abc.TaskGroup
    ) -> float:
        server = ReadEnd(self.from_agent), self.to_agent
        if self.program is not None:  # it follows before anything is asked
            self.page.questions(0, PASSWORD)
            await self.program.start(0)

        async def ending() -> str:
            return SERVER_ENDED

        policy = ServerPolicy(
            lambda: "simulated", lambda host, asks: "", ending, lambda line: None, self.confirm
        )
        async with translated(client, server, park=composition.settings.park_timeout) as sides:
            await run_server_proxy(
                sides.host,
                sides.server,
                prefix="abp-sim-",
                policy=policy,
                make_elicitor=partial(composition.make_mcp_elicitor, find_parked=sides.find_parked),
            )
            self.to_agent.close()
            return anyio.current_time()

    def _expect_no_question(self) -> None:
        statuses: list[Json] = [bridge.status()["questions"] for bridge in self.bridges]
        statuses += [describe_questions(each.ledger) for each in self.elicitors]
        for questions in statuses:
            for each in questions["open"]:
                self.complain(f"a question is open, and its call is over: {each}")

    async def _jump(self) -> None:
        """As after a laptop was asleep."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(self.jumps):
            await asyncio.sleep(self.rng.uniform(0, 60))
            self.report.faults["clock jump"] += 1
            loop.now += self.rng.choice([10.0, 900.0, 8 * 3_600.0])

    @property
    def can_show(self) -> bool:
        """Whether a server's question reaches the person somewhere."""
        return self.page_mode == "open" or bool(getattr(self.host, "capabilities", None))

    def may_refuse(self, asked: Asked) -> set[str]:
        """The codes that an app may be told of this question all the same."""
        fair = set()
        if "timeout" in asked.request["params"] or asked.is_late:
            fair.add("TIMEOUT")
        if asked.is_left_behind or self.app.crashed:
            fair.add("CANCELLED")
        if not isinstance(self.host, (LegacyHost, ModernHost)) and self.page_mode == "off":
            fair.add("NOT_SUPPORTED")  # buttons carry no text and no secret
        return fair

    def complain(self, words: str) -> None:
        self.report.problems.append(words)
