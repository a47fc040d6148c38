"""What others need for the same: FastMCP's proxies and mcp-proxy, each in front of an echo server.

They live in environments of their own, pinned in `PEERS`, which `python -m bench.peers` makes: they
cannot be installed together. Against the bridge in front of an app that echoes, and against its own
proxy in front of the same server.
"""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from bench.client import Broken, Client
from bench.subjects import BRIDGE, HERE, MCP_PROXY, Bench
from bench.table import Row, Sample
from bench.traffic import TURN, in_turns

LONG = "x" * 100_000  # characters of a call and of its result
ENVIRONMENTS = HERE.parent / ".bench"
PEERS = {"fastmcp": "fastmcp==4.1.2", "mcp-proxy": "mcp-proxy==0.13.0"}

FASTMCP, STATEFUL, CHAIN = "FastMCP proxy", "FastMCP stateful proxy", "mcp-proxy twice"


def install() -> None:
    """Make the environments that are not there yet."""
    for name, requirement in PEERS.items():
        folder = ENVIRONMENTS / name
        if not (folder / requirement).exists():
            venv.create(folder, with_pip=True, clear=True)
            pip = [_program(name, "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, "--disable-pip-version-check", requirement], check=True)
            (folder / requirement).touch()


def peers(bench: Bench) -> list[Row]:
    """Start, a call's way through to another process and back, short and long, and the memory of
    each FastMCP; first for `serve`, and then for `mcp`.

    Raises Broken where the environments are not there.
    """
    started = _starts(bench)
    with ExitStack() as stack:
        clients = {name: stack.enter_context(start(bench)) for name, start in _SUBJECTS.items()}
        for client in clients.values():
            client.greet()
        clients[BRIDGE] = bench.connected(stack)
        took, long = (
            _take_turns(clients, text, 2 if bench.quick else 12) for text in ("hello", LONG)
        )
        sizes = {name: Sample([client.resident()]) for name, client in clients.items()}
    return [
        Row(
            f"peers.{figure}.{key}{name}",
            f"{prefix}{words}",
            unit,
            sample[ours],
            name,
            sample[name],
        )
        for key, prefix, ours in (("", "", BRIDGE), ("proxy.", "mcp: ", MCP_PROXY))
        for figure, words, unit, sample in (
            ("start", "spawn to tools/list", "ms", started),
            ("call", "call through to another process", "ms", took),
            ("long", f"the same with {len(LONG):,} characters", "ms", long),
            ("memory", "memory in the middle of a session", "MiB", sizes),
        )
        for name in _SUBJECTS
        if name not in (BRIDGE, MCP_PROXY)
        and (figure, name) != ("memory", CHAIN)  # it is four processes
    ]


def _starts(bench: Bench) -> dict[str, Sample]:
    times: dict[str, list[float]] = {name: [] for name in _SUBJECTS}
    for number in range(1 + (2 if bench.quick else 8)):
        for name, start in _SUBJECTS.items():
            with start(bench) as client:
                _, listed, _ = client.greet()
            if number:  # the first fills caches
                times[name].append(listed * 1000)
    return {name: Sample(values) for name, values in times.items()}


def _take_turns(clients: Mapping[str, Client], text: str, count: int) -> dict[str, Sample]:
    turns = {
        name: (client, partial(_calls, client, "abp_echo" if name == BRIDGE else "echo", text))
        for name, client in clients.items()
    }
    return in_turns(turns, count)[0]


def _calls(client: Client, tool: str, text: str) -> list[float]:
    return [client.tool(tool, {"text": text})[0] for _ in range(TURN)]


def _program(environment: str, name: str) -> str:
    return str(ENVIRONMENTS / environment / "bin" / name)


def _peer(environment: str, baseline: str, *arguments: str) -> Callable[[Bench], Client]:
    """What starts a baseline under a peer's own Python."""

    def start(bench: Bench) -> Client:
        python = _program(environment, "python")
        if not (ENVIRONMENTS / environment / PEERS[environment]).exists():
            raise Broken(f"{PEERS[environment]} is not there: python -m bench.peers installs it")
        script = str(HERE / "baselines" / baseline)
        command: Sequence[str] = [python, script, *arguments]
        return bench.launch_command(environment, command)

    return start


_SUBJECTS: dict[str, Callable[[Bench], Client]] = {
    BRIDGE: lambda bench: bench.start(BRIDGE),
    MCP_PROXY: lambda bench: bench.start(MCP_PROXY),
    FASTMCP: _peer("fastmcp", "fastmcp_proxy.py"),
    STATEFUL: _peer("fastmcp", "fastmcp_proxy.py", "stateful"),
    CHAIN: _peer("mcp-proxy", "mcp_proxy_chain.py", _program("mcp-proxy", "mcp-proxy")),
}

if __name__ == "__main__":
    install()
