"""The real hosts: how each is configured and started, and how a turn of its model is played."""

from __future__ import annotations

import itertools
import json
import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from support import npm
from support.peer import RpcPeer

from .stage import BRIDGE_ENV, PATIENCE, Stage

Json = Any


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


PACKAGES = npm.read_packages(Path(__file__).with_name("packages.json"))

END = 10.0  # seconds until a host is asked to end less gently
A_MOMENT = 0.2  # seconds between two keys
# Seconds that a person takes: what is quicker, or always the same, is a host's policy.
PACE = random.Random("a person")
READING = (0.7 + PACE.expovariate(2.5) for _ in itertools.count())
COMPLETED = ("completed", "end_turn")
DENIED = 5  # acpx's exit code when something was


def installed(host: str) -> Path:
    """The program of `host`, installed if it is not there. Raises NotInstalled."""
    return npm.program(PACKAGES[host], npm.CACHE / "hosts" / host)


# --- what a model is told, and what a person answers ----------------------------------------------


def calling(tool: str, **arguments: Json) -> str:
    """A line of a script: the model calls a tool."""
    return f"CALL {tool} {json.dumps(arguments)}"


def asking(method: str, **params: Json) -> str:
    """A line of a script: the model has the demo app ask one thing."""
    return calling(
        "abp_call", capability="demo.ask", params={"request": {"method": method, "params": params}}
    )


def accept(**content: Json) -> Json:
    return {"action": "accept", "content": content}


CANCEL = {"action": "cancel"}
LEGACY: Json = {"ABP_MCP_MODERN": "false"}
COLOUR = {  # what Claude asks by itself, with `AskUserQuestion`
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": label, "description": f"It is {label.lower()}"}
        for label in ("Red", "Green", "Blue")
    ],
    "multiSelect": False,
}


def gist(response: Json) -> tuple[Json, Json, Json]:
    """Of an ABP response: whether it is a success, its data, and who answered."""
    return response["success"], response.get("data"), response["metadata"]["answeredBy"]


def first_json(text: str) -> Json:
    """The JSON that `text` begins with; the bridge's own words may follow."""
    return json.JSONDecoder().raw_decode(text)[0]


# --- any host -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the host's that a person must answer."""

    host: Host
    id: Json
    params: Json

    def answer(self, answer: Json, pace: Iterator[float] = READING) -> None:
        longer = 1 + len(self.params.get("message", "")) / 150  # as long as a text takes to read
        time.sleep(next(pace) * min(longer, 5))
        self.host.reply(self.id, answer)


class Host(RpcPeer):
    """A host driven as an editor drives it. `asks` is the request that the user answers."""

    patience = PATIENCE
    asks = "elicitation/create"
    answers: Mapping[str, Callable[[Json], Json]] = {}

    def __init__(self, stage: Stage, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        log = stage.folder / "host.log"
        super().__init__(command, env=env, cwd=stage.work, log=log, start_new_session=True)
        self.stage = stage
        self._turn = 0

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        """Close its stdin as an editor does, then terminate it, then kill its process group."""
        for less_gently in (self.process.terminate, self.process.kill):
            with suppress(subprocess.TimeoutExpired, BrokenPipeError):
                self.process.communicate(timeout=END)
                break
            less_gently()
        self.process.wait(END)
        with suppress(ProcessLookupError):
            until = time.monotonic() + END
            while time.monotonic() < until:
                os.killpg(self.process.pid, 0)
                time.sleep(0.02)
            os.killpg(self.process.pid, signal.SIGKILL)
        super().__exit__()

    def open(self) -> None:
        """Shake hands."""

    def begin_turn(self, script: str) -> None:
        raise NotImplementedError

    def finish(self) -> str:
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError

    def read(self, limit: float | None = None) -> Json:
        """The next message that is somebody's; what is no person's is answered on the way."""
        while True:
            message = super().read(limit)
            if "id" not in message or message.get("method") in (None, self.asks):
                return message
            if (answer := self.answers.get(message["method"])) is not None:
                self.reply(message["id"], answer(message["params"]))
            else:
                error = {"code": -32601, "message": "Method not found"}
                self._send({"id": message["id"], "error": error})

    def question(self) -> Question:
        return self._question(self.until(self._is_question))

    def play(self, script: str, *answers: Json) -> list[Json]:
        """A whole turn, the person giving `answers` one after another: what was shown."""
        left = list(answers)
        shown = self.talk(script, lambda question: question.answer(left.pop(0)))
        assert not left, f"the host did not ask for {left}"
        return shown

    def talk(self, script: str, person: Callable[[Question], None]) -> list[Json]:
        """A whole turn, `person` taking each question as it comes: what was shown."""
        self.begin_turn(script)
        shown = []
        while self._is_question(message := self.until(self._is_news)):
            question = self._question(message)
            shown.append(question.params)
            person(question)
        self._passed.append(message)
        stopped = self.finish()
        assert stopped in COMPLETED, f"the turn stopped with {stopped}"
        return shown

    def ask(self, method: str, *answers: Json, **params: Json) -> tuple[list[Json], Json]:
        """Have the app ask one thing: (what was shown, the ABP response that the app got)."""
        shown = self.play(asking(method, **params), *answers)
        text = self.stage.results()[-1]["content"][0]["text"]
        assert any(text in said for _, said in self.stage.model.requests[-1].said), (
            "the model was not told what the app got"
        )
        return shown, json.loads(text)

    def _is_question(self, message: Json) -> bool:
        return "id" in message and message.get("method") == self.asks

    def _is_news(self, message: Json) -> bool:
        return self._is_question(message) or (
            "method" not in message and message["id"] == self._turn
        )

    def _question(self, message: Json) -> Question:
        return Question(self, message["id"], message["params"])


# --- Codex ----------------------------------------------------------------------------------------

CODEX = _text("codex.toml")
CODEX_SERVER = _text("codex_server.toml")


def codex_home(stage: Stage, server: str = "") -> dict[str, str]:
    config = CODEX.format(url=stage.model.url, work=json.dumps(str(stage.work)))
    (stage.home / "config.toml").write_text(config + server)
    return stage.environment(CODEX_HOME=str(stage.home), MOCK_KEY="none")


def codex_with_bridge(
    stage: Stage,
    bridge_env: Mapping[str, str],
    app: str = "demo",
    *,
    required: bool = True,
    tool_timeout: float | None = None,
) -> dict[str, str]:
    command, *args = stage.bridge(app)
    env = {**BRIDGE_ENV, **bridge_env}.items()
    server = CODEX_SERVER.format(
        command=json.dumps(command),
        args=json.dumps(args),
        env=", ".join(f"{name} = {json.dumps(value)}" for name, value in env),
        required=json.dumps(required),
    )
    if tool_timeout is not None:
        server += f"tool_timeout_sec = {tool_timeout}\n"
    return codex_home(stage, server)


def codex_exec(
    stage: Stage,
    script: str,
    *,
    required: bool = True,
    tool_timeout: float | None = None,
    **bridge_env: str,
) -> None:
    run(
        stage,
        [stage.program, "exec", "--json", "--skip-git-repo-check", script],
        codex_with_bridge(stage, bridge_env, required=required, tool_timeout=tool_timeout),
    )


class AppServer(Host):
    stamp: ClassVar[Mapping[str, Json]] = {}
    asks = "mcpServer/elicitation/request"

    def __init__(
        self,
        stage: Stage,
        app: str = "demo",
        *,
        tool_timeout: float | None = None,
        **bridge_env: str,
    ) -> None:
        env = codex_with_bridge(stage, bridge_env, app, tool_timeout=tool_timeout)
        super().__init__(stage, [stage.program, "app-server"], env)

    def open(self) -> None:
        client = {"name": "abp-bridge-tests", "version": "0"}
        self.result("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
        self.send("initialized")
        self._thread = self.result("thread/start", {"cwd": str(self.stage.work)})["thread"]["id"]

    def begin_turn(self, script: str) -> None:
        said = {"threadId": self._thread, "input": [{"type": "text", "text": script}]}
        self._id = self.result("turn/start", said)["turn"]["id"]

    def _is_news(self, message: Json) -> bool:
        return self._is_question(message) or message.get("method") == "turn/completed"

    def finish(self) -> str:
        return str(self.notified("turn/completed")["turn"]["status"])

    def cancel(self) -> None:
        self.result("turn/interrupt", {"threadId": self._thread, "turnId": self._id})


# --- agents in an editor: Goose, Claude -----------------------------------------------------------

CAPABILITIES = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "elicitation": {"form": {}, "url": {}},
}


def allow(params: Json) -> Json:
    allowed, *_ = (
        option["optionId"] for option in params["options"] if option["kind"] == "allow_once"
    )
    return {"outcome": {"outcome": "selected", "optionId": allowed}}


class Editor(Host):
    """A session of an ACP agent in a client that allows tools and shows forms of its `server`."""

    answers: Mapping[str, Callable[[Json], Json]] = {"session/request_permission": allow}

    def __init__(
        self,
        stage: Stage,
        command: Sequence[str | Path],
        env: Mapping[str, str],
        server: Sequence[str],
        name: str = "abp",
        **bridge_env: str,
    ) -> None:
        super().__init__(stage, command, env)
        names = {**BRIDGE_ENV, **bridge_env}.items()
        variables = [{"name": name, "value": value} for name, value in names]
        self._servers: list[Json] = []
        if server:
            program, *args = server
            self._servers += [{"name": name, "command": program, "args": args, "env": variables}]

    def open(self) -> None:
        client = {"name": "abp-bridge-tests", "version": "0"}
        self.result(
            "initialize",
            {"protocolVersion": 1, "clientCapabilities": CAPABILITIES, "clientInfo": client},
        )
        place = {"cwd": str(self.stage.work), "mcpServers": self._servers}
        self.session: str = self.result("session/new", place)["sessionId"]

    def begin_turn(self, script: str) -> None:
        prompt = [{"type": "text", "text": script}]
        self._turn = self.begin("session/prompt", {"sessionId": self.session, "prompt": prompt})

    def finish(self) -> str:
        return str(self.response(self._turn)["result"]["stopReason"])

    def cancel(self) -> None:
        self.send("session/cancel", {"sessionId": self.session})


GOOSE = _text("goose.yaml")


def goose_home(
    stage: Stage, mode: str = "auto", extensions: Mapping[str, Json] | None = None
) -> dict[str, str]:
    config = stage.home / ".config" / "goose" / "config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    known = json.dumps(extensions or {})  # which is YAML too
    config.write_text(GOOSE.format(url=stage.model.url, mode=mode, extensions=known))
    return stage.environment(OPENAI_API_KEY="none")


def claude_home(stage: Stage, tool_timeout: float | None = None) -> dict[str, str]:
    quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER")
    return stage.environment(
        ANTHROPIC_BASE_URL=stage.model.url,
        ANTHROPIC_API_KEY="none",
        ENABLE_TOOL_SEARCH="false",
        **({} if tool_timeout is None else {"MCP_TOOL_TIMEOUT": f"{tool_timeout * 1000:.0f}"}),
        **dict.fromkeys((*quiet, "IS_SANDBOX"), "1"),
    )


OPENCODE: Json = json.loads(_text("opencode.json"))


def opencode_home(stage: Stage) -> dict[str, str]:
    provider = {**OPENCODE["provider"]["mock"], "options": {"baseURL": f"{stage.model.url}/v1"}}
    provider["options"]["apiKey"] = "none"
    config = {**OPENCODE, "provider": {"mock": provider}, "mcp": {}}
    (stage.home / "opencode.json").write_text(json.dumps(config))
    return stage.environment(OPENCODE_CONFIG=str(stage.home / "opencode.json"))


def qwen_home(stage: Stage) -> dict[str, str]:
    url = f"{stage.model.url}/v1"
    return stage.environment(OPENAI_API_KEY="none", OPENAI_BASE_URL=url, OPENAI_MODEL="mock")


def gemini_home(stage: Stage) -> dict[str, str]:
    settings = stage.home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    key = {"auth": {"selectedType": "gemini-api-key"}}
    settings.write_text(json.dumps({"security": key, "model": {"name": "mock"}}))
    return stage.environment(GEMINI_API_KEY="none", GOOGLE_GEMINI_BASE_URL=stage.model.url)


def goose_extension(
    stage: Stage, bridge_env: Mapping[str, str], tool_timeout: float | None = None
) -> dict[str, Json]:
    server = server_entry(stage, bridge_env)
    timeout = {} if tool_timeout is None else {"timeout": round(tool_timeout)}
    named = {"enabled": True, "type": "stdio", "name": "abp", "cmd": server["command"]}
    return {"abp": {**named, "args": server["args"], "envs": server["env"], **timeout}}


def goose(stage: Stage, **bridge_env: str) -> Editor:
    return Editor(stage, [stage.program, "acp"], goose_home(stage), stage.bridge(), **bridge_env)


def claude(stage: Stage, *, tool_timeout: float | None = None, **bridge_env: str) -> Editor:
    home = claude_home(stage, tool_timeout)
    return Editor(stage, [stage.program], home, stage.bridge(), **bridge_env)


# --- hosts that run one prompt, headless, to its end ----------------------------------------------


def server_entry(stage: Stage, bridge_env: Mapping[str, str]) -> dict[str, Json]:
    command, *args = stage.bridge()
    return {"command": command, "args": args, "env": {**BRIDGE_ENV, **bridge_env}}


def claude_command(stage: Stage, *arguments: str, **bridge_env: str) -> list[str | Path]:
    """The program that `claude-agent-acp` brings along, with the bridge as its server."""
    program = stage.program.parents[1] / "@anthropic-ai/claude-agent-sdk-linux-x64/claude"
    servers = {"mcpServers": {"abp": server_entry(stage, bridge_env)}}
    options = ["--mcp-config", json.dumps(servers), "--strict-mcp-config", "--allowedTools"]
    return [program, *arguments, *options, "mcp__abp"]


def claude_print(
    stage: Stage, script: str, *, tool_timeout: float | None = None, **bridge_env: str
) -> None:
    command = claude_command(stage, "-p", script, **bridge_env)
    run(stage, command, claude_home(stage, tool_timeout))


def copilot_home(stage: Stage) -> dict[str, str]:
    return stage.environment(
        COPILOT_PROVIDER_BASE_URL=f"{stage.model.url}/v1",
        COPILOT_PROVIDER_API_KEY="none",
        COPILOT_MODEL="mock",
        COPILOT_OFFLINE="true",
    )


def copilot_command(
    stage: Stage, *arguments: str, tool_timeout: float | None = None, **bridge_env: str
) -> list[str | Path]:
    clock = {} if tool_timeout is None else {"timeout": round(tool_timeout * 1000)}
    server = {"tools": ["*"], **server_entry(stage, bridge_env), **clock}
    servers = json.dumps({"mcpServers": {"abp": server}})
    return [stage.program, "--additional-mcp-config", servers, "--allow-all-tools", *arguments]


def copilot_print(
    stage: Stage, script: str, *, tool_timeout: float | None = None, **bridge_env: str
) -> None:
    command = copilot_command(stage, "-p", script, tool_timeout=tool_timeout, **bridge_env)
    run(stage, command, copilot_home(stage))


def fast_agent_message(stage: Stage, script: str, **bridge_env: str) -> None:
    config = stage.home / "fast-agent.yaml"
    provider = {"api_key": "none", "base_url": f"{stage.model.url}/v1"}
    servers = {"abp": {"transport": "stdio", **server_entry(stage, bridge_env)}}
    config.write_text(json.dumps({"generic": provider, "mcp": {"servers": servers}}))
    options = ["--config-path", str(config), "--servers", "abp", "--model", "generic.mock"]
    run(stage, [stage.program, "go", *options, "--message", script], stage.environment())


# --- acpx -----------------------------------------------------------------------------------------

RUNTIME = Path(__file__).with_name("acpx_runtime.mjs")
YES = {"outcome": "allow_once"}


class Runtime(Host):
    """A session of `acpx/runtime`. Without forms, the user is asked for each permission."""

    said = ""  # in the last turn

    def __init__(
        self, stage: Stage, agent: Sequence[str], env: Mapping[str, str], *, forms: bool
    ) -> None:
        if forms:
            self.answers = {"session/request_permission": lambda params: YES}
        else:
            self.asks = "session/request_permission"
        package, state = stage.program.resolve().parents[1], stage.folder / "state"
        how = "forms" if forms else "buttons"
        super().__init__(stage, ["node", RUNTIME, package, state, how, *agent], env)

    def begin_turn(self, script: str) -> None:
        self._turn = self.begin("prompt", {"text": script})

    def finish(self) -> str:
        result = self.response(self._turn)["result"]
        self.said = result["text"]
        return str(result["status"])

    def cancel(self) -> None:
        self.send("cancel", {})


def acpx_exec(
    stage: Stage,
    policy: str,
    script: str,
    agent: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    code: int = 0,
) -> str:
    """`acpx exec` to its end: what the agent said. The agent is the bridge unless one is given."""
    command = acpx_command(stage, agent, script, "--format", "quiet", policy)
    return run(stage, command, env or stage.environment(**BRIDGE_ENV), code)


def acpx_command(stage: Stage, agent: Sequence[str], script: str, *how: str) -> list[str | Path]:
    started = shlex.join(agent or stage.bridge(kind="acp"))
    options = ["--agent", started, "--cwd", str(stage.work), *how]
    return [stage.program, *options, "exec", script]


def before_goose(
    stage: Stage, app: str = "demo", mode: str = "auto"
) -> tuple[list[str], dict[str, str]]:
    env = {**goose_home(stage, mode), **BRIDGE_ENV}
    return stage.before(installed("goose"), "acp", app=app), env


def before_claude(stage: Stage) -> tuple[list[str], dict[str, str]]:
    return stage.before(installed("claude")), {**claude_home(stage), **BRIDGE_ENV}


# --- programs that run to their end ---------------------------------------------------------------


def run(
    stage: Stage,
    command: Sequence[str | Path],
    env: Mapping[str, str],
    code: int = 0,
    said: str | None = None,
) -> str:
    """A headless host, which is `said` this much on its stdin, to its end: what it said."""
    with (stage.folder / "host.stderr").open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=stage.work,
            env=env,
            stdin=subprocess.DEVNULL if said is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        answer, _ = process.communicate(said, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == code, f"it ended with {process.returncode}, see {stage.folder}"
    return answer
