"""An ACP client's session: the client is the host, and its prompts are commands for the apps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

import anyio

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_texts, parse_json
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, next_progress
from abp_bridge.core.sanitize import MESSAGE_LIMIT, label
from abp_bridge.jsonrpc.connection import JsonRpcConnection
from abp_bridge.protocols.acp import v1
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.mcp.results import encode_result
from abp_bridge.protocols.mcp.tools import tool_name
from abp_bridge.session.context import AskContext
from abp_bridge.session.host import MAX_REMEMBERED, AppCapability, CallOutcome, Host, SessionError
from abp_bridge.session.surface import (
    Page,
)

if TYPE_CHECKING:
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.call import Call

TURN = "turn"  # a session has one at a time

HELP = """\
This agent is a bridge to web apps: it has no model of its own. Type a command:
/connect [address] — connect an app, or those it was started for
/status — what is connected, asked and told
/disconnect [app]
and one per capability of a connected app: /name {"its": "parameters"}"""

_OWN_COMMANDS = {
    "connect": Capability("connect", "Connect an app, or those this bridge was started for"),
    "status": Capability("status", "What is connected, asked and told"),
    "disconnect": Capability("disconnect", "Disconnect an app, or all of them"),
}
_TAKEN = {*_OWN_COMMANDS, *v1.COMMANDS}

_NOT_TAKEN = (
    "*No question is open any more: what you wrote was not taken as an answer, and nobody got it.*"
    "\n\n"
)
_UNREAD = "A command takes text and links: it was not begun, as this came with it: {}."
_STILL_OPEN = (
    "*A question is open: answer it, or `/decline` or `/cancel` it. Until then there are only"
    " `/status`, `/connect` and `/disconnect`.*"
)


@dataclass(slots=True)
class _Running:
    """The call of the turn.

    Attributes:
        card: The tool call that shows it.
        told: Whether the card shows its end.
        dropped: It was cancelled between two prompts: its result is not shown.
    """

    call: Call
    card: str
    ended: CallOutcome | None = None
    told: bool = False
    dropped: bool = False


class AcpSession(ClientSurfaces):
    """One session of one client, as a `Host`.

    Args:
        connection: The client's connection.
        id: The session's id.
        client: The parameters of the client's `initialize`.
        page: The bridge's page.
        make_api: Makes the bridge that its prompts use.
        chat: Whether questions may be asked in the conversation.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        id: str,
        client: JsonObject,
        page: Page,
        make_api: Callable[[Host], Bridge],
        *,
        chat: bool = True,
    ) -> None:
        on_chat = self.on_capabilities_changed if chat else None
        super().__init__(connection, client, id, page, on_chat=on_chat)
        self.cwd = ""
        self._operations: dict[str, str] = {}  # by app and name: the cards of those that run
        self._operation_serial = 0
        self._running: _Running | None = None
        self._capability = ""  # that runs
        self._was_prompted = False
        self.lost_notifications = connection.lost_notifications
        self._api = make_api(self)

    # --- Host: what the bridge asks of the client ---

    @property
    def runs_call(self) -> bool:
        """Whether a call waits that the next prompt, as the answer, can continue."""
        return self._running is not None

    def find_card(self, context: AskContext) -> str | None:
        """Return the card of the call that the question surely belongs to."""
        return context.call and f"abp:{context.call}"

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """Return the folder that the session works in."""
        return [self.cwd] if self.cwd else []

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """Send an app's notice to the client (`Host.on_notice`).

        A client without notices reads it with the running call's result (`Call.summary`), or in
        `/status`. An operation without a call has its own card.
        """
        if (
            notice.kind in (NoticeKind.STARTED, NoticeKind.COMPLETED)
            and notice.operation is not None
        ):
            self._on_operation(f"{app}/{notice.operation}", notice)
        if self.capabilities.notices:
            field = notice.data.get("field") if notice.kind is NoticeKind.STATE_CHANGED else None
            self.update(
                acp.encode_notice(notice),
                key=None if field is None else ("state", self.session_id, app, str(field)),
                topic=notice.name,
            )

    def _on_operation(self, operation: str, notice: Notice) -> None:
        running = self._running is not None and self._capability == notice.data.get(
            "capability"
        )  # it speaks of the call itself
        if (
            notice.kind is NoticeKind.STARTED
            and not running
            and operation not in self._operations
            and len(self._operations) < MAX_REMEMBERED
        ):
            self._operation_serial += 1
            self._operations[operation] = f"abp:operation-{self._operation_serial}"
            self.update(acp.encode_operation(self._operations[operation], notice))
        elif (
            notice.kind is NoticeKind.COMPLETED
            and (card := self._operations.pop(operation, None)) is not None
        ):
            self.update(acp.encode_operation(card, notice))

    def on_capabilities_changed(self) -> None:
        """Send the client the current commands."""
        typed = v1.COMMANDS if self.chat.is_open else {}
        commands = acp.encode_commands(list(self._commands().items()), list(typed.items()))
        self.update(commands, key=("commands", self.session_id))

    def on_resources_changed(self) -> None:
        """ACP has no resources: files are linked from the call that made them."""

    # --- what the client asks of the bridge ---

    async def close(self) -> None:
        """The client closes the session: its apps go too."""
        await self._api.close("the client closed the session")

    def on_return(self) -> None:
        """The client goes on with sessions: it may be asked what its next prompt answers."""
        self.has_come_back = True

    def send_commands(self) -> None:
        self.on_capabilities_changed()

    def cancel(self) -> None:
        """Cancel the turn's call now: nothing later in the same read can answer its questions."""
        if self._running is not None:
            self._running.dropped = self.turns.is_interrupted
            self._running.call.cancel("the client cancelled the turn")
        self.turns.cancel()

    def on_turn_sent(self, when: float) -> None:
        """The last byte of a turn's end has left, `when` (seconds of the loop's clock)."""
        self.chat.on_shown(when)

    async def run_turn(self, prompt: JsonValue) -> None:
        """Run one turn: a slash command, a reply to a question, or help. Cancelling cancels the
        call.

        `prompt` has the content blocks; a command with others than text and links is refused.
        """
        if self._was_prompted:
            self.on_return()
        self._was_prompted = True
        turns = self.turns
        if self.chat.is_open:
            reply = v1.decode_reply(prompt)
            if reply.meaning is v1.Meaning.COMMAND:
                self._say(await self._handle_command_while_asking(reply.text))
                return
            self.chat.take(reply, self._connection.arrived)
            turn = self._go_on()
        else:
            turns.begin(TURN)
            turn = self._begin(acp.prompt_text(prompt), acp.unread_blocks(prompt))
        try:
            await turn
        finally:
            if self._running is None:
                with anyio.CancelScope(shield=True):
                    await turns.end(TURN, "the turn ended")

    async def _go_on(self) -> None:
        """Continue the call that asked, after a reply."""
        if self._running is not None:
            self._say(await self._attend(self._running))

    async def _begin(self, text: str, unread: Sequence[str]) -> None:
        """Run what was typed, after showing the result of the last turn's call."""
        running, is_command = self._running, text.startswith("/")
        if running is not None:
            if not is_command:
                self._say(_NOT_TAKEN)
            ended = await self._attend(running)
            self._say("" if running.dropped else ended)
        if self._running is not None:
            self._say(_STILL_OPEN if is_command else "")
        elif is_command and unread:
            self._say(_UNREAD.format(", ".join(unread)))
        elif running is None or is_command:
            self._say(await self._handle_command(text))

    async def _handle_command(self, text: str) -> str:
        try:
            return await self._run_command(text) if text.startswith("/") else HELP
        except SessionError as problem:
            return f"{problem.code}: {problem}"

    async def _handle_command_while_asking(self, line: str) -> str:
        """Run a command of ours; the open question stays open."""
        if line[1:].split(maxsplit=1)[:1] not in ([name] for name in _OWN_COMMANDS):
            return _STILL_OPEN
        return await self._handle_command(line)

    async def _run_command(self, line: str) -> str:
        name, rest = (*line[1:].split(maxsplit=1), "", "")[:2]
        if name == "connect":
            apps = await self._api.connect(rest or None)
            warnings = as_texts(self._api.status().get("warnings"))
            lines = [*map(self._describe_app, apps), *(f"Warning: {each}" for each in warnings)]
            return "\n".join(lines)
        if name == "disconnect":
            apps_gone = await self._api.disconnect(rest or None)
            return (
                f"Disconnected: {', '.join(apps_gone)}." if apps_gone else "No app was connected."
            )
        if name == "status":
            return f"```json\n{json.dumps(self._api.status(), ensure_ascii=False, indent=1)}\n```"
        if (
            name not in self._offers()
        ):  # an app named at the start may not be connected yet, or no longer
            await self._api.connect(None)
        offer = self._offers().get(name)
        if offer is None:
            known = ", ".join(f"/{each}" for each in self._commands())
            raise SessionError(
                "UNKNOWN_CAPABILITY", f"There is no command /{name[:80]}. There are {known}."
            )
        return await self._call(offer, _parameters(offer.capability, rest))

    async def _call(self, offer: AppCapability, params: JsonObject) -> str:
        last: Progress | None = None

        def report(progress: Progress) -> None:
            nonlocal last
            last = next_progress(last, progress)
            if not running.told:  # else it would run again for the client, without an end
                key = ("progress", self.session_id, card)
                self.update(acp.encode_progress(card, last), key=key)

        self._capability = offer.capability.name
        call = await self._api.start(
            offer.capability.name,
            params,
            app=offer.app,
            on_progress=report,
            on_end=lambda outcome: self._on_call_end(running, outcome),
        )
        card = f"abp:{call.id}"
        self._running = running = _Running(call, card)
        self.update(acp.encode_call(card, offer.capability.name, params))
        return await self._attend(running)

    async def _attend(self, running: _Running) -> str:
        """Wait until the call ends or asks in the chat, and return the text to show."""
        try:
            await self._wait_for(running.call)
        except BaseException:  # a cancellation too; it is raised again
            self.cancel()
            self._tell_end(running, acp.encode_ended(running.card, ["Cancelled."], [], failed=True))
            self._running = None
            raise
        if running.ended is None:
            return ""
        self._running = None
        self._end_call_card(running, running.ended)
        return "\n\n".join(_lines(running.ended))

    async def _wait_for(self, call: Call) -> None:
        """Wait until the call ends, or the turn ends for the client."""

        async def watch() -> None:
            await self.turns.wait_interrupted()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await call.wait()
            tasks.cancel_scope.cancel()

    def _on_call_end(self, running: _Running, outcome: CallOutcome) -> None:
        running.ended = outcome
        if self.turns.is_interrupted:  # nobody waits for it now
            self._end_call_card(running, outcome)

    def _end_call_card(self, running: _Running, outcome: CallOutcome) -> None:
        failed = outcome.result.failure is not None
        ended = acp.encode_ended(running.card, _lines(outcome), outcome.files, failed=failed)
        self._tell_end(running, ended)

    def _tell_end(self, running: _Running, ended: JsonObject) -> None:
        if not running.told:
            running.told = True
            self.update(ended)

    def _describe_app(self, app: str) -> str:
        details = as_object(as_object(self._api.status()["apps"])[app])
        lines = [f"Connected {app}: {details['name']} ({details['origin']})."]
        lines += [
            f"- /{name}: {label(offer.capability.description, MESSAGE_LIMIT)}"
            for name, offer in self._offers().items()
            if offer.app == app
        ]
        return "\n".join(lines)

    def _offers(self) -> dict[str, AppCapability]:
        """Return each capability by its command; a taken name gets the app's id as prefix."""
        found: dict[str, AppCapability] = {}
        for offer in self._api.capabilities():
            name = tool_name(offer.capability.name).removeprefix("abp_")
            others = (f"{offer.app}_{name}{number}" for number in chain([""], count(2)))
            found[
                next(
                    each
                    for each in chain([name], others)
                    if each and each not in found and each not in _TAKEN
                )
            ] = offer
        return found

    def _commands(self) -> dict[str, Capability]:
        return _OWN_COMMANDS | {name: offer.capability for name, offer in self._offers().items()}

    def _say(self, text: str) -> None:
        if text:
            self.say(text)


def _parameters(capability: Capability, text: str) -> JsonObject:
    """Parse what was typed after a command: JSON, or text for a single text parameter.

    Raises SessionError.
    """
    if not text:
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
    if not text.startswith("{") and len(texts) == 1:
        return {texts[0]: text}
    try:
        params = parse_json(text)
    except ValueError:
        params = None
    if not isinstance(params, dict):
        raise SessionError(
            "INVALID_PARAMS",
            f'Give the parameters of {capability.name} as JSON: /command {{"name": "value"}}',
        )
    return params


def _lines(ended: CallOutcome) -> list[str]:
    """Return the texts that an MCP host gets for a result."""
    blocks = encode_result(ended.result, summary=ended.summary, unasked=ended.unasked)["content"]
    return [block["text"] for block in blocks]
