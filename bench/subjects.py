"""What is measured, what it is measured against, and what both run in: the same interpreter, the
same compiled files, nobody else's settings.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.client import Client, Editor, Json

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable

BRIDGE, SCRIPT, SDK, PUMP = "python -m abp_bridge serve", "abp-bridge serve", "SDK server", "pump"
ANYIO_PUMP = "anyio pump"
SDK_MODERN = "SDK server, modern"
MCP_PROXY, MCP_LINE_PUMP = "abp_bridge mcp", "line pump, MCP"

_SERVER = [PYTHON, str(HERE / "baselines" / "echo_server.py")]

COMMANDS: dict[str, Sequence[str]] = {
    BRIDGE: [PYTHON, "-m", "abp_bridge", "serve"],
    SCRIPT: [str(Path(PYTHON).with_name("abp-bridge")), "serve"],
    SDK: [PYTHON, str(HERE / "baselines" / "sdk_server.py")],
    SDK_MODERN: [PYTHON, str(HERE / "baselines" / "sdk_modern.py")],
    PUMP: [PYTHON, str(HERE / "baselines" / "pump.py"), *_SERVER],
    ANYIO_PUMP: [PYTHON, str(HERE / "baselines" / "pump.py"), "--anyio", *_SERVER],
    MCP_PROXY: [PYTHON, "-m", "abp_bridge", "mcp", "--page", "off", "--", *_SERVER],
    MCP_LINE_PUMP: [PYTHON, str(HERE / "baselines" / "line_pump.py"), *_SERVER],
}

_APP = [PYTHON, str(HERE / "echo_app.py")]
APP = f"stdio:{shlex.join(_APP)}"

# What an editor launches.
PROXY, PROXY_WITH_APP, LINE_PUMP, FACE, SDK_AGENT, SDK_AGENT_WITH_APP = (
    "abp_bridge acp",
    "abp_bridge acp --app",
    "line pump",
    "abp_bridge serve --app",
    "SDK agent",
    "SDK agent with cards and the app",
)

_AGENT = [PYTHON, str(HERE / "baselines" / "echo_agent.py")]

ACP_COMMANDS: dict[str, Sequence[str]] = {
    PROXY: [PYTHON, "-m", "abp_bridge", "acp", "--", *_AGENT],
    PROXY_WITH_APP: [PYTHON, "-m", "abp_bridge", "acp", "--app", APP, "--", *_AGENT],
    LINE_PUMP: [PYTHON, str(HERE / "baselines" / "line_pump.py"), *_AGENT],
    FACE: [*COMMANDS[BRIDGE], "--app", APP],
    SDK_AGENT: [PYTHON, str(HERE / "baselines" / "acp_agent.py")],
    SDK_AGENT_WITH_APP: [PYTHON, str(HERE / "baselines" / "acp_agent.py"), *_APP],
}


class Bench:
    """Starts subjects.

    `scratch` is a folder of this run's: compiled files go there, so that everything starts as it
    does when installed.
    """

    def __init__(self, scratch: Path, *, quick: bool) -> None:
        self.scratch = scratch
        self.quick = quick
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "ABP_"))
        }
        self._env = {
            **kept,
            "PYTHONPYCACHEPREFIX": str(scratch / "compiled"),
            "TMPDIR": str(scratch),
            "ABP_PERSON_FLOOR": "0",
            "ABP_TOOL_CACHE": "off",
        }

    def start(self, subject: str) -> Client:
        return Client(subject, COMMANDS[subject], self._env)

    def launch_command(self, name: str, command: Sequence[str]) -> Client:
        """Whatever speaks MCP on its stdio."""
        return Client(name, command, self._env)

    def greeted(self, stack: ExitStack, subject: str) -> Client:
        """A subject that has been greeted; it ends with `stack`."""
        client = stack.enter_context(self.start(subject))
        client.greet()
        return client

    def connected(self, stack: ExitStack, *, more: int = 0) -> Client:
        """A bridge whose app is connected and was called, as in the middle of a session.

        `more`: capabilities that nobody calls.
        """
        client = stack.enter_context(
            Client(BRIDGE, [*COMMANDS[BRIDGE], "--app", f"{APP} {more}"], self._env)
        )
        client.greet()
        client.tool("abp_connect", {})
        client.tool("abp_call", {"capability": "echo", "params": {"text": "hello"}})
        return client

    def edit(self, subject: str) -> Editor:
        """An editor that has launched this."""
        return Editor(subject, ACP_COMMANDS[subject], self._env)

    def opened(self, stack: ExitStack, subject: str) -> Editor:
        """The same, greeted and with a session."""
        editor = stack.enter_context(self.edit(subject))
        editor.hail()
        editor.open()
        return editor

    def launch(self, server: Json) -> Client:
        """What an agent makes of an entry of `mcpServers`."""
        variables = {variable["name"]: variable["value"] for variable in server["env"]}
        return Client(
            f"the server {server['name']}",
            [server["command"], *server["args"]],
            self._env | variables,
        )
