"""An ACP client's session as the bridge sees it: the surfaces it can be asked on, what it is told,
and prompts as commands for the apps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from abp_bridge.core import json_text
from abp_bridge.core.capability import Capability
from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.notice import Event, Notice, Progress
from abp_bridge.core.question import Outcome, Question
from abp_bridge.hosts.acp.client_surfaces import ClientSurfaces
from abp_bridge.hosts.acp.turns import Turns
from abp_bridge.interfaces.host import (
    AppCapability,
    Call,
    CallOutcome,
    Host,
    SessionApi,
    SessionError,
)
from abp_bridge.interfaces.surface import Page, SurfaceResponse
from abp_bridge.protocols import mcp
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.rpc.connection import JsonRpcConnection

Json = Any

MAX_OPERATIONS = 1_000
TURN = "turn"  # a session has one at a time

HELP = """\
This agent is a bridge to web apps: it has no model of its own. Type a command:
/connect [address] — connect an app, or those it was started for
/status — what is connected, asked and told
/disconnect [app]
and one per capability of a connected app: /name {"its": "parameters"}"""

_OWN = {
    "connect": Capability("connect", "Connect an app, or those this bridge was started for"),
    "status": Capability("status", "What is connected, asked and told"),
    "disconnect": Capability("disconnect", "Disconnect an app, or all of them"),
}


class AcpSession:
    """One session of one client, spoken to through `link`.

    `begin` makes the desk that its prompts go to.
    """

    def __init__(
        self,
        link: JsonRpcConnection,
        id: str,
        client: Mapping[str, Json],
        page: Page,
        begin: Callable[[Host], SessionApi],
    ) -> None:
        self.id = id
        self.cwd = ""
        self._surfaces = ClientSurfaces(link, client, id, page)
        self._operations: dict[
            str, str
        ] = {}  # the cards of those that were started, by app and name
        self._serial = 0
        self._turns = Turns()
        self._running: Call | None = None
        self._capability = ""  # that runs
        self._desk = begin(self)

    # --- Host: what the bridge asks of the client ---

    @property
    def name(self) -> str:
        return self._surfaces.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return self._surfaces.variants

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """See `Host.ask`."""
        shown = question.call and f"abp:{question.call}"
        return await self._turns.within(
            lambda: self._surfaces.ask(question, variant, problem, observe, call=shown)
        )

    async def send_link(self, question: Question, url: str) -> Outcome:
        """See `Host.send_link`."""
        return await self._turns.within(lambda: self._surfaces.send_link(question, url))

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """See `Host.roots`: the folder that the session works in."""
        return [self.cwd] if self.cwd else []

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """See `Host.on_notice`.

        Clients without notices hear it summed up at the end of the call; an operation that is no
        call has a card of its own.
        """
        if notice.event in (Event.STARTED, Event.COMPLETED) and notice.operation is not None:
            self._operate(f"{app}/{notice.operation}", notice)
        if self._surfaces.capabilities.notices:
            field = notice.data.get("field") if notice.event is Event.STATE_CHANGED else None
            self._surfaces.update(
                acp.encode_notice(notice),
                key=None if field is None else ("state", self.id, app, str(field)),
            )

    def _operate(self, operation: str, notice: Notice) -> None:
        running = self._running is not None and self._capability == notice.data.get(
            "capability"
        )  # it speaks of the call itself
        if (
            notice.event is Event.STARTED
            and not running
            and operation not in self._operations
            and len(self._operations) < MAX_OPERATIONS
        ):
            self._serial += 1
            self._operations[operation] = f"abp:operation-{self._serial}"
            self._surfaces.update(acp.encode_operation(self._operations[operation], notice))
        elif (
            notice.event is Event.COMPLETED
            and (card := self._operations.pop(operation, None)) is not None
        ):
            self._surfaces.update(acp.encode_operation(card, notice))

    def on_capabilities_changed(self) -> None:
        self._surfaces.update(
            acp.encode_commands(list(self._commands().items())), key=("commands", self.id)
        )

    def on_resources_changed(self) -> None:
        """ACP has no resources: files are linked from the call that made them."""

    # --- what the client asks of the bridge ---

    async def close(self) -> None:
        await self._desk.close("the client closed the session")

    def send_commands(self) -> None:
        """After the session has been given to the client: what can be typed."""
        self.on_capabilities_changed()

    def cancel(self) -> None:
        """The client cancels the turn: the call ends now, and nothing that the same read brings can
        still answer its questions.
        """
        if self._running is not None:
            self._running.cancel("the client cancelled the turn")
        self._turns.cancel("the user cancelled the turn")

    async def prompt(self, prompt: Json) -> None:
        """Run one turn: a slash command, or a word of help. Cancelling it cancels the app's
        call.
        """
        words = acp.prompt_text(prompt)
        self._turns.begin(TURN)
        try:
            self._say(await self._run_command(words) if words.startswith("/") else HELP)
        except SessionError as problem:
            self._say(f"{problem.code}: {problem}")
        finally:
            with anyio.CancelScope(shield=True):
                await self._turns.end(TURN, "the turn ended")

    async def _run_command(self, words: str) -> str:
        name, rest = (*words[1:].split(maxsplit=1), "", "")[:2]
        if name == "connect":
            apps = await self._desk.connect(rest or None)
            return "\n".join(self._describe_app(app) for app in apps)
        if name == "disconnect":
            gone = await self._desk.disconnect(rest or None)
            return f"Disconnected: {', '.join(gone)}." if gone else "No app was connected."
        if name == "status":
            return f"```json\n{json.dumps(self._desk.status(), ensure_ascii=False, indent=1)}\n```"
        if (
            name not in self._offers()
        ):  # an app named at the start may not be connected yet, or no longer
            await self._desk.connect(None)
        offer = self._offers().get(name)
        if offer is None:
            known = ", ".join(f"/{each}" for each in self._commands())
            raise SessionError(
                "UNKNOWN_CAPABILITY", f"There is no command /{name[:80]}. There are {known}."
            )
        return await self._call(offer, _parameters(offer.capability, rest))

    async def _call(self, offer: AppCapability, params: Mapping[str, Json]) -> str:
        def report(progress: Progress) -> None:
            self._surfaces.update(
                acp.encode_progress(shown, progress), key=("progress", self.id, shown)
            )

        self._capability = offer.capability.name
        self._running = call = await self._desk.start(
            offer.capability.name, params, app=offer.app, on_progress=report
        )
        shown = f"abp:{call.id}"
        self._surfaces.update(acp.encode_call(shown, offer.capability.name, params))
        try:
            ended = await call.wait()
        except BaseException:
            self.cancel()
            self._surfaces.update(acp.encode_ended(shown, ["Cancelled."], [], failed=True))
            raise
        finally:
            self._running = None
        lines = _lines(ended)
        self._surfaces.update(
            acp.encode_ended(shown, lines, ended.files, failed=ended.result.failure is not None)
        )
        return "\n\n".join(lines)

    def _describe_app(self, app: str) -> str:
        details = self._desk.status()["apps"][app]
        lines = [f"Connected {app}: {details['name']} ({details['origin']})."]
        lines += [
            f"- /{name}: {offer.capability.description}"
            for name, offer in self._offers().items()
            if offer.app == app
        ]
        return "\n".join(lines)

    def _offers(self) -> dict[str, AppCapability]:
        """The command of each capability.

        One whose name is taken, by us or by another, has the app's id before it.
        """
        found: dict[str, AppCapability] = {}
        for offer in self._desk.capabilities():
            name = mcp.tool_name(offer.capability.name).removeprefix("abp_")
            names = (
                name,
                *(f"{offer.app}_{name}{number}" for number in ("", *range(2, len(found) + 3))),
            )
            found[
                next(each for each in names if each and each not in found and each not in _OWN)
            ] = offer
        return found

    def _commands(self) -> dict[str, Capability]:
        return _OWN | {name: offer.capability for name, offer in self._offers().items()}

    def _say(self, words: str) -> None:
        self.update(acp.encode_message(words))

    def update(self, update: Json) -> None:
        """Tell the client a `session/update`."""
        self._surfaces.update(update)


def _parameters(capability: Capability, words: str) -> Mapping[str, Json]:
    """What was typed after a command: JSON, or plain words for a capability with one text
    parameter. Raises SessionError.
    """
    if not words:
        return {}
    properties = capability.input_schema.get("properties")
    texts = (
        [
            name
            for name, part in properties.items()
            if isinstance(part, Mapping) and part.get("type") == "string"
        ]
        if isinstance(properties, Mapping)
        else []
    )
    if not words.startswith("{") and len(texts) == 1:
        return {texts[0]: words}
    try:
        params = json_text.parse(words)
    except ValueError:
        params = None
    if not isinstance(params, dict):
        raise SessionError(
            "INVALID_PARAMS",
            f'Give the parameters of {capability.name} as JSON: /command {{"name": "value"}}',
        )
    return params


def _lines(ended: CallOutcome) -> list[str]:
    """The same words that an MCP host gets for a result."""
    blocks = mcp.encode_result(ended.result, told=ended.summary)["content"]
    return [block["text"] for block in blocks]
