"""Every running bridge of this user on this machine: what each has open, and the way to a question.

Each is asked at its socket, all at once and with a bound. Where nobody listens, the bridge is dead,
and its entry goes; one that does not answer is said not to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel

from abp_bridge.core.json_value import JsonObject, as_count, as_object, as_text, parse_json
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError
from abp_bridge.surfaces.inbox import unix_peer
from abp_bridge.surfaces.inbox.link_request import make_request
from abp_bridge.surfaces.inbox.open_question import MAX_ANSWER, OpenQuestion, decode_all
from abp_bridge.surfaces.inbox.places import remove, runtime_folders, sockets

MAX_BRIDGES = 200  # that are alive and asked: more are no person's
MAX_MORE = 10**6  # questions that a bridge can say it does not list
ANSWER_LIMIT = 1.0  # seconds for a bridge to say what it has open
PROBLEMS = ("silent", "gone", "closed", "elsewhere", "unpaired", "other")
_OURS = re.compile(r"http://127\.0\.0\.1:\d{1,5}/open/[\w-]{1,64}")


class BridgeError(AbpBridgeError):
    """A bridge gave no link; the message is one of `PROBLEMS`."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """One that is registered.

    Attributes:
        name: Of its socket, unique on this machine.
        pid: Its process.
        since: When it registered, in seconds since 1970.
        answers: Whether it does, within `ANSWER_LIMIT`.
        questions: What is open there, the oldest first.
        more: How many questions it has that it does not list.
    """

    name: str
    pid: int
    since: int
    answers: bool = True
    questions: Sequence[OpenQuestion] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """What was found.

    Attributes:
        bridges: All that are alive, the oldest first.
        problems: Of folders that bridges may be in, and that are not looked into: why.
        not_asked: How many entries more there are, which may be bridges.
    """

    bridges: Sequence[Bridge] = ()
    problems: Sequence[str] = ()
    not_asked: int = 0


async def look() -> Overview:
    """All bridges. The entries of dead ones are removed."""
    folders, problems = runtime_folders()
    entries = [entry for folder in folders for entry in sockets(folder)]
    found: list[Bridge] = []

    async def ask(path: Path, pid: int, since: int) -> None:
        try:
            answer = await _ask(path, {"ask": "list"})
            if answer is None:
                return
            listed = decode_all(answer.get("questions"))
            more = min(as_count(answer.get("more")) or 0, MAX_MORE)
            found.append(Bridge(path.name, pid, since, True, listed, more))
        except (TimeoutError, RemoteProtocolError):
            found.append(Bridge(path.name, pid, since, answers=False))

    await anyio.lowlevel.checkpoint()
    while entries and len(found) < MAX_BRIDGES:  # those that are dead do not count
        room = MAX_BRIDGES - len(found)
        batch, entries = entries[:room], entries[room:]
        async with anyio.create_task_group() as tasks:
            for entry in batch:
                tasks.start_soon(ask, *entry)
    found.sort(key=lambda each: (each.since, each.pid))
    return Overview(found, problems, len(entries))


async def find_link(bridge: str, question: str, secret: str, inbox: str) -> str:
    """A link to `question` of the bridge with that name, for the browser that has the `secret` and
    comes from the `inbox` at that address.

    Raises:
        BridgeError: There is none.
    """
    paths = [path for folder in runtime_folders()[0] for path, _, _ in sockets(folder)]
    path = next((each for each in paths if each.name == bridge), None)
    answer = None
    if path is not None:
        try:
            answer = await _ask(path, make_request(bridge, question, secret, inbox))
        except (TimeoutError, RemoteProtocolError):
            raise BridgeError("silent") from None
    if answer is None:
        raise BridgeError("gone")
    if _OURS.fullmatch(url := as_text(answer.get("url"))):
        return url
    problem = as_text(answer.get("problem"))
    raise BridgeError(problem if problem in PROBLEMS else "other")


async def _ask(path: Path, request: JsonObject) -> JsonObject | None:
    """What the bridge there answers; None where there is none any more.

    Raises:
        TimeoutError: It does not answer.
        RemoteProtocolError: It answers what is no answer.
    """
    try:
        with anyio.fail_after(ANSWER_LIMIT):
            async with await anyio.connect_unix(path) as stream:
                if not unix_peer.is_own_user(stream):
                    return None
                await stream.send(json.dumps(request).encode() + b"\n")
                data = bytearray()
                while not data.endswith(b"\n") and len(data) <= MAX_ANSWER:
                    await unix_peer.wait_readable(stream)
                    data += await stream.receive()
    except (ConnectionRefusedError, FileNotFoundError):
        remove(path)
        return None
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as problem:
        if isinstance(problem, TimeoutError):
            raise
        return None  # it ends just now
    if len(data) > MAX_ANSWER:
        raise RemoteProtocolError(f"a bridge answered with more than {MAX_ANSWER:,} bytes")
    try:
        return as_object(parse_json(bytes(data)))
    except ValueError:
        raise RemoteProtocolError("a bridge answered what is no JSON") from None
