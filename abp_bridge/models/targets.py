"""Make the agent that a model's name means; each kind is imported only when used."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial

from abp_bridge.core.redact.command import clean_target, show_unknown
from abp_bridge.core.sanitize import label
from abp_bridge.core.web_address import host_of
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.models.agent import AgentError, AgentErrorCode, AgentProtocol
from abp_bridge.settings import describe_removed

MODELS = (
    "cli:NAME, acp:COMMAND, openai:NAME, anthropic:NAME, google:NAME, or an address and the"
    " model's name there, as in http://127.0.0.1:11434/v1#NAME"
)


def make_agent(model: str, folder: str, tap: Tap = unobserved_stream) -> AgentProtocol:
    """Return the agent that `model` names, one of `MODELS`; nothing runs yet.

    Args:
        folder: Parent of the folders of sessions without a workspace; the caller removes it.
        tap: Observes it; a model behind an API as lines of JSON.

    Raises:
        AgentError: It names none, or its kind is not installed.
    """
    for scheme, make in _KINDS.items():
        if model.startswith(scheme):
            return make(model.removeprefix(scheme), folder, tap)
    words = f"{show_unknown(model)!r} is no model: write {MODELS}"
    raise AgentError(AgentErrorCode.NOT_AVAILABLE, words)


def check_model(model: str) -> None:
    """Check that `model` names an agent that can answer sampling, which is done without tools.

    Raises:
        AgentError: It does not.
    """
    make_agent(model, "")
    scheme, _, name = model.partition(":")
    if scheme == "cli":
        from abp_bridge.models.cli import DIALECTS

        if DIALECTS[name].toolless is None:
            words = f"{model} always has its tools, and so is no model for sampling"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words)


def _cli(name: str, folder: str, tap: Tap) -> AgentProtocol:
    from abp_bridge.models.cli import DIALECTS, CliAgent

    if name not in DIALECTS:
        if removed := describe_removed(f"cli:{name}"):
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, removed)
        named = label(show_unknown(" ".join(name.split()[:1])), 40)
        words = f"there is no agent cli:{named}: write cli: and one of {', '.join(DIALECTS)}"
        raise AgentError(AgentErrorCode.NOT_AVAILABLE, words)
    return CliAgent(DIALECTS[name], folder, tap)


def _llm(provider: str, name: str, folder: str, tap: Tap) -> AgentProtocol:
    from abp_bridge.models.llm import LlmAgent

    if not name:
        words = f"write the model's name after {provider}:"
        raise AgentError(AgentErrorCode.NOT_AVAILABLE, words)
    return LlmAgent(provider, name, tap=tap)


def _address(scheme: str, rest: str, folder: str, tap: Tap) -> AgentProtocol:
    from abp_bridge.models.llm import ADDRESS, LlmAgent

    url, _, name = f"{scheme}{rest}".partition("#")
    words = ""
    if "?" in url or host_of(url) is None:
        words = "an address is written as http://127.0.0.1:11434/v1#NAME, without user and query"
    elif not name:
        words = f"an address needs the model's name there as well: {clean_target(url)[:200]}#NAME"
    if words:
        raise AgentError(AgentErrorCode.NOT_AVAILABLE, words)
    return LlmAgent(ADDRESS, name, base_url=url, tap=tap)


def _acp(command: str, folder: str, tap: Tap) -> AgentProtocol:
    from abp_bridge.models.acp import AcpAgent

    try:
        words = shlex.split(command)
    except ValueError as problem:
        said = f"the command after acp: cannot be read: {problem}"
        raise AgentError(AgentErrorCode.NOT_AVAILABLE, said) from None
    if not words:
        said = "acp: needs a command, as in 'acp:goose acp'"
        raise AgentError(AgentErrorCode.NOT_AVAILABLE, said)
    return AcpAgent(words, folder, tap)


_KINDS: Mapping[str, Callable[[str, str, Tap], AgentProtocol]] = {
    "cli:": _cli,
    "acp:": _acp,
    **{f"{name}:": partial(_llm, name) for name in ("openai", "anthropic", "google")},
    **{scheme: partial(_address, scheme) for scheme in ("http://", "https://")},
}
