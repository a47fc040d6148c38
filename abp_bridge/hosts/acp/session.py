"""An ACP client's session as the bridge sees it: the surfaces it can be asked on, what it is told, and prompts as commands for the apps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from abp_bridge.core.capability import Capability
from abp_bridge.core.downgrade import Menu, Walked
from abp_bridge.core.matrix import Column, Surface
from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import Outcome, Question
from abp_bridge.hosts.contract import Desk, DeskError, Ended, Host, HostGone, Offer, Reply, SurfaceRefused
from abp_bridge.hosts.profiles import profile
from abp_bridge.protocols import acp, mcp
from abp_bridge.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from abp_bridge.wire.link import Link, LinkClosed, RemoteError

Json = Any

HELP = """\
This agent is a bridge to web apps: it has no model of its own. Type a command:
/connect [address] — connect an app, or those it was started for
/status — what is connected, asked and told
/disconnect [app]
and one per capability of a connected app: /name {"its": "parameters"}"""

_OWN = (
    Capability("connect", "Connect an app, or those this bridge was started for"),
    Capability("status", "What is connected, asked and told"),
    Capability("disconnect", "Disconnect an app, or all of them"),
)

_OUTCOMES = {
    mcp.Action.ACCEPT: Outcome.ACCEPTED,
    mcp.Action.DECLINE: Outcome.DECLINED,
    mcp.Action.CANCEL: Outcome.CANCELLED,
}


class AcpSession:
    """One session of one client, spoken to through `link`. `begin` makes the desk that its prompts go to."""

    def __init__(self, link: Link, id: str, client: Mapping[str, Json], begin: Callable[[Host], Desk]) -> None:
        self.id = id
        self.cwd = ""
        self._link = link
        info = client.get("clientInfo")
        self._info: Mapping[str, Json] = info if isinstance(info, Mapping) else {}
        self._profile = profile(str(self._info.get("name")))
        self._capabilities = acp.decode_capabilities(client.get("clientCapabilities"))
        self._refused: set[Surface] = set()
        self._prompting = False
        self._desk = begin(self)

    # --- contract.Host: what the bridge asks of the client ---

    @property
    def name(self) -> str:
        return f"{self._info.get('name', 'an unnamed client')} {self._info.get('version', '')} (ACP {acp.VERSION})"

    @property
    def columns(self) -> Sequence[Column]:
        """The surfaces this client has, best first, less those it turned out not to have. Every client can be asked for a permission."""
        found = {
            Column(Surface.ACP_FORM): self._capabilities.form,
            Column(Surface.ACP_URL): self._capabilities.url,
            Column(Surface.ACP_PERMISSION, buttons=self._profile.buttons): True,
        }
        return [column for column, has in found.items() if has and column.surface not in self._refused]

    async def ask(self, question: Question, column: Column, problem: str = "") -> Reply:
        """See `Host.ask`. Questions are asked inside a running prompt only: clients refuse, or never answer, any other."""
        if not self._prompting:
            raise SurfaceRefused("no prompt is running, and clients do not answer questions outside of one", lasting=False)
        call = f"abp:{question.call or question.id}"
        if question.call is None:
            self._update(acp.encode_asking(call, question))
        if column.surface is Surface.ACP_PERMISSION:
            return await self._walk(question, column, call)
        result = await self._request(column, "elicitation/create", acp.encode_form(question, self.id, call, problem))
        action, content = mcp.decode_reply(result, question)
        return Reply(_OUTCOMES[action], content)

    async def _walk(self, question: Question, column: Column, call: str) -> Reply:
        """A menu, step by step. The slowest step tells whether a person was there."""
        menu, slowest = Menu(question, column.buttons), 0.0
        while True:
            started = anyio.current_time()
            result = await self._request(column, "session/request_permission", acp.encode_permission(question, menu.step, self.id, call))
            slowest = max(slowest, anyio.current_time() - started)
            chosen = acp.decode_outcome(result)
            if chosen is None:
                return Reply(Outcome.CANCELLED, slowest=slowest)
            after = menu.choose(chosen)
            if isinstance(after, Walked):
                return Reply(after.outcome, after.content, slowest)

    async def _request(self, column: Column, method: str, params: Json) -> Json:
        try:
            return await self._link.request(method, params, reason="the question is no longer open")
        except LinkClosed:
            raise HostGone from None
        except RemoteError as error:
            lasting = error.code in (METHOD_NOT_FOUND, INVALID_PARAMS)
            if lasting and column.surface is not Surface.ACP_PERMISSION:
                self._refused.add(column.surface)
            raise SurfaceRefused(f"the client answered: {error}", lasting=lasting) from None

    def told(self, app: str, origin: str, notice: Notice) -> None:
        """See `Host.told`. Clients without notices hear it summed up at the end of the call."""
        if self._capabilities.notices:
            self._update(acp.encode_notice(notice), key=(self.id, app, notice.name))

    def capabilities_changed(self) -> None:
        self._update(acp.encode_commands(list(self._commands().items())), key=(self.id, "commands"))

    def resources_changed(self) -> None:
        """ACP has no resources: files are linked from the call that made them."""

    # --- what the client asks of the bridge ---

    async def close(self) -> None:
        await self._desk.close("the client closed the session")

    def greet(self) -> None:
        """After `session/new` has been answered: what can be typed."""
        self.capabilities_changed()

    async def prompt(self, prompt: Json) -> None:
        """Run one turn: a slash command, or a word of help. Cancelling it cancels the app's call."""
        words = acp.prompt_text(prompt)
        self._prompting = True
        try:
            self._say(await self._obey(words) if words.startswith("/") else HELP)
        except DeskError as problem:
            self._say(f"{problem.code}: {problem}")
        finally:
            self._prompting = False

    async def _obey(self, words: str) -> str:
        name, _, rest = words[1:].partition(" ")
        rest = rest.strip()
        if name == "connect":
            apps = await self._desk.connect(rest or None)
            return "\n".join(self._account(app) for app in apps)
        if name == "disconnect":
            gone = await self._desk.disconnect(rest or None)
            return f"Disconnected: {', '.join(gone)}." if gone else "No app was connected."
        if name == "status":
            return f"```json\n{json.dumps(self._desk.status(), ensure_ascii=False, indent=1)}\n```"
        if not self._desk.offers():
            await self._desk.connect(None)
        offer = self._offers().get(name)
        if offer is None:
            known = ", ".join(f"/{each}" for each in self._commands())
            raise DeskError("UNKNOWN_CAPABILITY", f"There is no command /{name[:80]}. There are {known}.")
        return await self._call(offer, _parameters(offer.capability, rest))

    async def _call(self, offer: Offer, params: Mapping[str, Json]) -> str:
        def report(progress: Progress) -> None:
            self._update(acp.encode_progress(shown, progress), key=("progress", shown))

        call = await self._desk.start(offer.capability.name, params, app=offer.app, on_progress=report)
        shown = f"abp:{call.id}"
        self._update(acp.encode_call(shown, offer.capability.name, params))
        try:
            ended = await call.wait()
        except BaseException:
            call.cancel("the client cancelled the turn")
            self._update(acp.encode_ended(shown, ["Cancelled."], [], failed=True))
            raise
        lines = _lines(ended)
        self._update(acp.encode_ended(shown, lines, ended.files, failed=ended.result.failure is not None))
        return "\n\n".join(lines)

    def _account(self, app: str) -> str:
        details = self._desk.status()["apps"][app]
        lines = [f"Connected {app}: {details['name']} ({details['origin']})."]
        lines += [f"- /{name}: {offer.capability.description}" for name, offer in self._offers().items() if offer.app == app]
        return "\n".join(lines)

    def _offers(self) -> dict[str, Offer]:
        """The command of each capability; a second app's of the same name has the app's id before it."""
        found: dict[str, Offer] = {}
        for offer in self._desk.offers():
            name = mcp.tool_name(offer.capability.name, ()).removeprefix("abp_")
            found[f"{offer.app}_{name}" if name in found else name] = offer
        return found

    def _commands(self) -> dict[str, Capability]:
        own = {capability.name: capability for capability in _OWN}
        return own | {name: offer.capability for name, offer in self._offers().items()}

    def _say(self, words: str) -> None:
        self._update(acp.encode_message(words))

    def _update(self, update: Json, key: Any = None) -> None:
        self._link.notify("session/update", {"sessionId": self.id, "update": update}, key=key)


def _parameters(capability: Capability, words: str) -> Mapping[str, Json]:
    """What was typed after a command: JSON, or plain words for a capability with one text parameter. Raises DeskError."""
    if not words:
        return {}
    properties = capability.input_schema.get("properties")
    texts = (
        [name for name, part in properties.items() if isinstance(part, Mapping) and part.get("type") == "string"]
        if isinstance(properties, Mapping)
        else []
    )
    if not words.startswith("{") and len(texts) == 1:
        return {texts[0]: words}
    try:
        params = json.loads(words)
    except (ValueError, RecursionError):
        params = None
    if not isinstance(params, dict):
        raise DeskError("INVALID_PARAMS", f'Give the parameters of {capability.name} as JSON: /command {{"name": "value"}}')
    return params


def _lines(ended: Ended) -> list[str]:
    """The same words that an MCP host gets for a result."""
    blocks = mcp.encode_result(ended.result, told=ended.told)["content"]
    return [block["text"] for block in blocks]
