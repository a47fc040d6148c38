"""Start our server as a host does until it lists its tools, and run the host's list command."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject, as_list, as_object, as_text
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import count_of
from abp_bridge.jsonrpc.connection import ConnectionClosedError, JsonRpcConnection, RemoteError
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND, JsonRpcProtocol, Notification, Request
from abp_bridge.jsonrpc.subprocess import Child, child_environment, spawn
from abp_bridge.protocols.mcp import revisions
from abp_bridge.protocols.mcp.client import V2026_07_28
from abp_bridge.session.app import only_error
from abp_bridge.setup.doctor.finding import Entry, Finding, HostFacts, Verdict
from abp_bridge.setup.doctor.machine import environment, greeting, patience
from abp_bridge.setup.entries import Machine
from abp_bridge.setup.hosts import SetupHost

START_LIMIT = 60.0  # seconds for one start: no host waits longer, even for all its servers
CHECK = "start"
_LAST_WORDS = 0.5  # seconds for what a program says as it ends


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a server answered with."""

    version: str
    tools: int


async def try_start(host: SetupHost, entry: Entry, machine: Machine) -> Finding:
    """Start a server or agent as the host does, and report whether it answers in time."""
    if not entry.server.enabled or entry.program is None or entry.unusable:
        return Finding(CHECK, Verdict.NOT_TRIED, f"{entry.shown} cannot be started as it is.")
    began = time.monotonic()
    command = [entry.program, *entry.words[1:]]
    env = environment(host, entry, machine.environ, machine.platform)
    cwd = as_text(entry.members.get("cwd")) or str(machine.folder)
    try:
        with anyio.fail_after(START_LIMIT):
            async with only_error(OSError, RemoteError), spawn(command, env=env, cwd=cwd) as child:
                try:
                    offer = await _greet(child, host, entry)
                except ConnectionClosedError:
                    with anyio.move_on_after(_LAST_WORDS):
                        await child.heard.wait()
                        await child.process.wait()
                    return _failed(entry, f"it ended: {child.ending}")
                seconds = time.monotonic() - began
    except TimeoutError:
        words = f"{entry.shown} has not answered within {START_LIMIT:g} s."
        return Finding(CHECK, Verdict.FAILS, words, _look(entry))
    except RemoteError as problem:
        return _failed(entry, as_text(problem.error.get("message")) or str(problem))
    except OSError as problem:
        return _failed(entry, str(problem))
    return _judge(host, entry, offer, seconds)


def leave_alone(host: SetupHost, entry: Entry) -> Finding:
    """What is said of an entry that is not started, as it came with a project."""
    words = f"{entry.shown} came with the project: whoever wrote {entry.file} chose what it starts."
    cure = f"See what its command does; 'abp-bridge doctor {host.name} --project' starts it."
    return Finding(CHECK, Verdict.NOT_TRIED, words, cure)


def _failed(entry: Entry, why: str) -> Finding:
    return Finding(
        CHECK,
        Verdict.FAILS,
        f"{entry.shown} does not start: {label(why, 600).rstrip('.')}.",
        _look(entry),
    )


def _look(entry: Entry) -> str:
    return f'Run the command of "{entry.name}" in {entry.file} by hand, and see what it says.'


def _judge(host: SetupHost, entry: Entry, offer: _Offer, seconds: float) -> Finding:
    waits, without = patience(host, entry)
    what = "is an agent" if entry.agent else f"has {count_of(offer.tools, 'tool')}"
    words = f"{entry.shown} starts as {host.title} starts it, and {what} after {seconds:.1f} s"
    if offer.version:
        words += f" ({'ACP' if entry.agent else 'MCP'} {offer.version})"
    if not entry.agent and not offer.tools:
        cure = "Run 'abp-bridge doctor TARGET' with its app."
        return Finding(CHECK, Verdict.FAILS, f"{words}: a model sees none.", cure, seconds)
    if seconds > waits:
        then = "goes on without it" if without else "gives it up"
        late = f"{words}; {host.title} waits {waits:g} s, and {then}."
        cure = (
            "Set required = true in the entry."
            if without
            else "Start it again: a first start is slow."
        )
        return Finding(CHECK, Verdict.FAILS, late, cure, seconds)
    return Finding(CHECK, Verdict.WORKS, f"{words}.", seconds=seconds)


async def _greet(child: Child, host: SetupHost, entry: Entry) -> _Offer:
    async with _connected(child) as connection:
        return await (_greet_agent(connection) if entry.agent else _greet_server(connection, host))


@asynccontextmanager
async def _connected(child: Child) -> AsyncIterator[JsonRpcConnection]:
    def on_message(message: Request | Notification) -> None:
        if isinstance(message, Request):
            connection.respond_error(message.id, METHOD_NOT_FOUND, "abp-bridge doctor only looks")

    connection = JsonRpcConnection(
        JsonRpcProtocol("doctor-"), child.stdout, child.stdin, on_message=on_message
    )
    errors = only_error(ConnectionClosedError, RemoteError)
    async with errors, anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        yield connection
        tasks.cancel_scope.cancel()


async def _greet_server(connection: JsonRpcConnection, host: SetupHost) -> _Offer:
    begins = greeting(host)
    client: JsonObject = {"name": host.client or host.name, "version": VERSION}
    if begins.modern:
        meta: JsonObject = {
            "_meta": {
                revisions.VERSION: V2026_07_28,
                revisions.CAPABILITIES: begins.capabilities,
                revisions.CLIENT: client,
            }
        }
        try:
            await connection.request("server/discover", meta)
        except RemoteError:
            pass  # a server of the legacy era: the handshake comes next
        else:
            listed = await connection.request("tools/list", meta)
            return _Offer(V2026_07_28, len(as_list(as_object(listed).get("tools"))))
    asked: JsonObject = {
        "protocolVersion": begins.version,
        "capabilities": begins.capabilities,
        "clientInfo": client,
    }
    version = as_text(
        as_object(await connection.request("initialize", asked)).get("protocolVersion")
    )
    connection.notify("notifications/initialized")
    listed = await connection.request("tools/list", {})
    return _Offer(label(version, 40), len(as_list(as_object(listed).get("tools"))))


async def _greet_agent(connection: JsonRpcConnection) -> _Offer:
    asked: JsonObject = {
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": {"name": "abp-bridge-doctor", "version": VERSION},
    }
    answer = as_object(await connection.request("initialize", asked))
    return _Offer(label(answer.get("protocolVersion"), 40), 0)


PROOF_CHECK = "host's own"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_GOOD = re.compile(r"✓|✔|\bconnected\b|\bok\b|\bready\b", re.IGNORECASE)
_BAD = re.compile(
    r"✗|✘|\bfail|\berror|disconnected|not connected|pending|disabled|needs|suppressed|untrusted",
    re.IGNORECASE,
)


def is_missing(host: SetupHost, machine: Machine) -> bool:
    """Whether the host has a program, and it is not on this terminal's PATH."""
    if not host.program:
        return False
    return shutil.which(host.program, path=machine.environ.get("PATH", os.defpath)) is None


async def ask_host(facts: HostFacts, machine: Machine, *, project: bool) -> list[Finding]:
    """Return what the host's own command says of our servers.

    Some hosts start a project's servers for that, so `project` must allow it.
    """
    host, theirs = facts.host, facts.file("project")
    if host.verify_reach == "model" and facts.entries:
        told = f"'{' '.join(host.verify)}' begins a session with your model: it is yours to run."
        return [Finding(PROOF_CHECK, Verdict.NOT_TRIED, told)]
    if not host.verify or any(each.problem for each in facts.files):
        return []  # some hosts leave a copy of what they cannot read
    program = shutil.which(host.verify[0], path=machine.environ.get("PATH"))
    if program is None:
        return []
    if host.verify_reach == "server" and theirs is not None and theirs.exists and not project:
        told = f"'{' '.join(host.verify)}' may start what {theirs.path} names: --project runs it."
        return [Finding(PROOF_CHECK, Verdict.NOT_TRIED, told)]
    names = sorted({each.name for each in facts.entries if not (each.agent or each.unusable)})
    found = []
    done: dict[tuple[str, ...], tuple[int | None, str]] = {}
    for name in names:
        words = tuple(each.replace("{name}", name) for each in host.verify[1:])
        if words not in done:
            done[words] = await _run_verify([program, *words], machine)
        found.append(judge(host, name, " ".join([host.verify[0], *words]), *done[words]))
    return found


async def _run_verify(command: list[str], machine: Machine) -> tuple[int | None, str]:
    """Its exit code, None where it did not end, and what it said."""
    said = bytearray()
    try:
        with anyio.fail_after(START_LIMIT):
            async with spawn(
                command,
                env=child_environment(machine.environ),
                cwd=str(machine.folder),
                overhear=said.extend,
            ) as child:
                child.stdin.close()
                while data := await child.stdout.receive():
                    said.extend(data)
                code = await child.process.wait()
    except TimeoutError:
        return None, ""
    except OSError as problem:
        return 1, str(problem)
    return code, _ESCAPES.sub("", said.decode(errors="replace"))


def judge(host: SetupHost, name: str, shown: str, code: int | None, said: str) -> Finding:
    """What its words mean for one server."""
    cure = f"See what '{shown}' says."
    if code is None:
        return Finding(
            PROOF_CHECK, Verdict.NOT_TRIED, f"'{shown}' did not end within {START_LIMIT:g} s."
        )
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    lines = [each for each in said.splitlines() if named.search(each)]
    if code:
        last = next((each for each in reversed(said.splitlines()) if each.strip()), "")
        words = f"'{shown}' failed: {label(last, 200).rstrip('.')}."
        verdict = Verdict.FAILS if lines else Verdict.WARNING  # of something else
        return Finding(PROOF_CHECK, verdict, words, cure)
    if not lines:
        return Finding(PROOF_CHECK, Verdict.FAILS, f"'{shown}' does not name \"{name}\".", cure)
    if host.verify_reach == "entry":
        return Finding(
            PROOF_CHECK, Verdict.WORKS, f"'{shown}' reads the entry (and starts nothing)."
        )
    word = next((each for each in lines if _BAD.search(each) or _GOOD.search(each)), lines[0])
    # before the dash it has the command, in which secrets may stand
    quoted = f"'{shown}' says of \"{name}\": {label(word.rpartition(' - ')[2], 200)}"
    if _BAD.search(word):
        return Finding(PROOF_CHECK, Verdict.FAILS, quoted, cure)
    return Finding(PROOF_CHECK, Verdict.WORKS if _GOOD.search(word) else Verdict.NOTE, quoted)
