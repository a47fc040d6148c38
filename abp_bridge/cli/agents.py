"""`abp-bridge agents`: list the agents and models that can be used here, or try one for a turn."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import anyio

from abp_bridge.cli.options import SECONDS
from abp_bridge.cli.runtime import complain, print_json, print_text, signals_interrupt
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.redact.command import show_model
from abp_bridge.core.sanitize import label, message
from abp_bridge.models.agent import (
    MAX_ANSWER,
    AgentError,
    AgentMessage,
    AgentProtocol,
    AgentResponse,
    Availability,
    Chunk,
    ChunkKind,
    CliConfig,
    StartOptions,
    ToolsNeededError,
)
from abp_bridge.models.cli import DIALECTS, CliAgent
from abp_bridge.models.llm import ADDRESS, PROVIDERS, LlmAgent
from abp_bridge.models.targets import MODELS, make_agent

if TYPE_CHECKING:
    import argparse

HELP = "which agents can be had here, and one turn of one"
USAGE = """\
abp-bridge agents [--json]
       abp-bridge agents MODEL --ask WORDS [OPTION]..."""
DESCRIPTION = (
    "Lists the agents whose command lines the bridge can speak to, with their version, and whose"
    " models it can ask by an API, or why they cannot be had. With a model, that one is given one"
    " turn, an agent in an empty folder and without its tools unless --tools says so. Exits with 0"
    " for a whole answer."
)
FAILED, INTERRUPTED = 1, 130
STDIN = "-"
WIDTH = 15  # of the longest word in the list


def add_agents_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    option = parser.add_argument
    option("model", nargs="?", metavar="MODEL", help=MODELS)
    option("--ask", metavar="WORDS", default="", help="what it is sent; '-' reads them from stdin")
    option("--tools", action="store_true", help="it may use its own tools, by its own permissions")
    option("--resume", metavar="SESSION", default="", help="go on with this session of its own")
    option(
        "--timeout",
        metavar="TIME",
        type=SECONDS,
        default=300.0,
        help="for the whole turn (in seconds, or as 2min; default: 5min)",
    )
    option("--json", action="store_true", help="one JSON object a line instead of words")


def describe_more(words: Sequence[str]) -> str:
    """Suggest what words after the model may mean."""
    return f"is --ask {shlex.quote(' '.join(words))} meant?"


def run_agents(options: argparse.Namespace) -> int:
    """List the agents, or run one turn; return the exit code."""
    if options.model is None:
        return anyio.run(_list_agents, options.json)
    try:
        agent = make_agent(options.model, "")
    except AgentError as problem:
        return complain(problem, "agents")
    if options.resume and agent.transport_type == "llm":
        return complain("a model behind an API keeps no conversation: it cannot --resume one")
    try:
        words = _read_words(options.ask)
    except UnicodeError:
        return complain(f"what it is sent is no text in {sys.stdin.encoding}", "agents")
    if not words.strip():
        shown = shlex.quote(show_model(options.model))
        return complain(f'say what it is sent, as in: agents {shown} --ask "Hello"')
    return anyio.run(_try, options, words)


def _read_words(given: str) -> str:
    """Return the prompt. Raises UnicodeError."""
    words = sys.stdin.read() if given == STDIN else given
    words.encode()  # Python lets bytes through that are no letters
    return words


async def _list_agents(as_json: bool) -> int:
    listed = [*_local(), *_behind_apis()]
    found: dict[str, Availability] = {}

    async def look(each: _Listed) -> None:
        found[each.model] = await each.agent.available()

    async with anyio.create_task_group() as tasks:
        for each in listed:
            tasks.start_soon(look, each)
    for each in listed:
        about = found[each.model]
        if as_json:
            print_json(json.dumps(_agent_members(each, about)) + "\n")
        else:
            found_or_not = about.version or "yes" if about.ok else f"no: {about.why_not}"
            print_text(f"{each.model:<{WIDTH}} {found_or_not}\n")
    if not as_json:
        print_text(f"{'acp:COMMAND':<{WIDTH}} any agent that speaks ACP, as in 'acp:goose acp'\n")
    return 0


@dataclass(frozen=True, slots=True)
class _Listed:
    """A row of the list."""

    name: str
    model: str
    title: str
    agent: AgentProtocol
    toolless: bool = True


def _local() -> Iterator[_Listed]:
    for name, dialect in DIALECTS.items():
        agent, toolless = CliAgent(dialect, ""), dialect.toolless is not None
        yield _Listed(name, f"cli:{name}", dialect.title, agent, toolless)


def _behind_apis() -> Iterator[_Listed]:
    for name, provider in PROVIDERS.items():
        model = "http://...#NAME" if name == ADDRESS else f"{name}:NAME"
        yield _Listed(name, model, provider.title, LlmAgent(name, ""))


def _agent_members(each: _Listed, about: Availability) -> JsonObject:
    return {
        "name": each.name,
        "model": each.model,
        "title": each.title,
        "available": about.ok,
        **({"version": about.version} if about.version else {}),
        **({} if about.ok else {"whyNot": about.why_not}),
        "transport": each.agent.transport_type,
        "withoutTools": each.toolless,
    }


async def _try(options: argparse.Namespace, words: str) -> int:
    with tempfile.TemporaryDirectory(prefix="abp-agent-") as folder:
        agent = make_agent(options.model, folder)
        code = INTERRUPTED
        with anyio.CancelScope() as scope:
            async with signals_interrupt(lambda number: scope.cancel()):
                code = await _try_agent(agent, options, words)
        return code


async def _try_agent(agent: AgentProtocol, options: argparse.Namespace, words: str) -> int:
    sent = [AgentMessage("user", words)]
    show = _show_json if options.json else _show_text
    limit = round(options.timeout * 1_000)
    try:
        config = CliConfig(tools=options.tools)
        session = await agent.start(StartOptions(session_id=options.resume, cli_config=config))
        if options.resume:
            turn = await agent.resume(session, sent, on_chunk=show, timeout_ms=limit)
            response = turn[1]
        else:
            response = await agent.send(session, sent, on_chunk=show, timeout_ms=limit)
    except AgentError as problem:
        if options.json:
            told = {"error": {"code": problem.code, "message": str(problem)}}
            print_json(json.dumps(told) + "\n")
            return FAILED
        cure = "; --tools lets it use them" if isinstance(problem, ToolsNeededError) else ""
        complain(f"{show_model(options.model)} brought no answer ({problem.code}): {problem}{cure}")
        return FAILED
    _print_response(response, as_json=options.json)
    return 0


def _show_json(chunk: Chunk) -> None:
    said: JsonObject = {"chunk": chunk.kind, "text": chunk.text, "data": chunk.data}
    print_json(json.dumps({name: each for name, each in said.items() if each}) + "\n")


def _show_text(chunk: Chunk) -> None:
    """Write what the agent does to stderr: stdout is for its answer."""
    if chunk.kind in (ChunkKind.TOOL_START, ChunkKind.NOTICE):
        what = "uses" if chunk.kind == ChunkKind.TOOL_START else "says"
        sys.stderr.write(f"{what} {label(chunk.text, 200)}\n")


def _print_response(response: AgentResponse, *, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps({"response": asdict(response)}) + "\n")
    else:
        print_text(message(response.content or "", MAX_ANSWER) + "\n")
