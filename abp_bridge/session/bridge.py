"""The session: `Bridge` joins the host, its apps and the questions."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from functools import partial

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from abp_bridge.core.capability import (
    AppFile,
    CallResult,
    Capability,
    SavedFile,
    describe_place,
)
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.ledger import Progress
from abp_bridge.core.matrix import QuestionShape, find_cell
from abp_bridge.core.question import Kind
from abp_bridge.core.redact.command import HIDDEN, show_target
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import nearest_first
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.loop import Workers
from abp_bridge.jsonrpc.protocol import load_fast_codec
from abp_bridge.protocols import abp
from abp_bridge.protocols.offer import Offer
from abp_bridge.session import approval
from abp_bridge.session.app import App, AppError
from abp_bridge.session.call import Call, OwnQuestion
from abp_bridge.session.connection import AppConnection
from abp_bridge.session.context import AskContext, Observer, no_observer
from abp_bridge.session.elicitor import Elicitor, describe_questions
from abp_bridge.session.files import FileAccess
from abp_bridge.session.host import (
    AppCapability,
    CallOutcome,
    ExpectedApps,
    Host,
    KnownOffers,
    Resource,
    SessionError,
    expect_apps,
    make_offer,
    state_uri,
)
from abp_bridge.session.result_store import KeptResult, ResultStore
from abp_bridge.session.router import Router, describe_surfaces
from abp_bridge.settings import Settings

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 1.5  # seconds for the apps to hear of the end: hosts kill us after two


class Bridge:
    """One session. What cannot be met raises SessionError with an ABP error code."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        tasks: TaskGroup,
        make_app: Callable[[str, bool], App],
        *,
        router: Router | None = None,
        observe: Observer = no_observer,
        inbox_problem: Callable[[], str] = str,
        known: KnownOffers | None = None,
    ) -> None:
        """Begin a session without apps.

        Args:
            settings: Times, folders and the apps named at the start.
            host: Requested the session, and hears what apps report.
            tasks: Runs calls and connections; must outlive the session.
            make_app: Makes the app for a target, or raises AppError; its flag says that the user
                named
                the target, not a model.
            router: The surfaces; without it, only the host's own.
            observe: Receives the events.
            inbox_problem: Why the inbox does not list this process, or nothing.
            known: Keeps what the apps named at the start offer.
        """
        self.host = host
        self._inbox_problem = inbox_problem
        self.observe = observe
        self._router = router or Router(host, min_human_latency=settings.min_human_latency)
        self._settings = settings
        self._tasks = tasks
        self._workers = Workers(tasks)
        self._make_app = make_app
        self._apps: dict[str, AppConnection] = {}
        self._known = known
        self._remembering = anyio.Lock()  # one after the other: the last is what stays
        self._seen: set[str] = set()  # the targets that have been connected
        self._connecting = anyio.Lock()
        self._failures: dict[str, str] = {}  # why a target could not be connected, the last time
        self._warned: set[str] = set()
        self._serial = 0
        self._own_calls: dict[str, Call] = {}  # in which the host's model asks, by their ids
        self.elicitor = Elicitor(
            self._router,
            limit=settings.question_timeout,
            observe=observe,
            files=FileAccess(self._roots),
            host_name=lambda: host.name,
            on_model_progress=self._on_model_progress,
        )
        self._results = ResultStore(settings.output_dir, host.on_resources_changed)

    async def connect(self, target: str | None) -> Sequence[str]:
        """Connect the app at `target`, or all apps named at the start.

        An app named at the start may also be given as it is shown.

        Returns:
            The ids of the apps at `target`, or of all that are connected.

        Raises:
            SessionError: None can be connected, none was named, or `target` is ambiguous.
        """
        if target is None and not self._settings.apps and not self._apps:
            raise SessionError(
                "MISSING_PARAM",
                "There is no app to connect. Give a target, or start abp-bridge with --app.",
            )
        target = None if target is None else self._resolve(target)
        failures: list[SessionError] = []
        async with self._connecting:
            for wanted in self._not_connected() if target is None else [target]:
                try:
                    await self._connect(wanted)
                except SessionError as problem:
                    failures.append(problem)
                    self._failures[wanted] = str(problem)
        connected = [
            each.id for each in self._apps.values() if target is None or each.target == target
        ]
        if not connected:
            words = "Each app ended while the others were connected: see abp_status."
            raise failures[0] if failures else SessionError("DISCONNECTED", words)
        for warning in self._strange_names():
            if warning not in self._warned:
                self._warned.add(warning)
                logger.warning("%s", warning)
        return connected

    async def disconnect(self, app: str | None) -> Sequence[str]:
        """Close the connection of `app`, or of all, and return their ids; open calls fail.

        Raises:
            SessionError: `DISCONNECTED` if there is no such app.
        """
        leaving = [self._connection(app)] if app is not None else list(self._apps.values())
        for connection in leaving:
            connection.close_requested.set()
        for connection in leaving:
            await connection.closed.wait()
        return [connection.id for connection in leaving]

    def capabilities(self) -> Sequence[AppCapability]:
        """Return the capabilities of the connected apps."""
        return [offer for app in self._apps.values() for offer in _offers(app)]

    def find_app(self, target: str) -> str | None:
        """Return the id of the app connected from `target`."""
        return next((each.id for each in self._apps.values() if each.target == target), None)

    def expected(self) -> ExpectedApps:
        """Return what the apps that are not connected yet will offer, as known from earlier
        sessions.
        """
        if self._known is None:
            return ExpectedApps()
        coming = [each for each in self._settings.apps if each not in self._seen]
        return expect_apps(coming, self._known)

    async def start(
        self,
        capability: str,
        params: JsonObject,
        *,
        app: str | None = None,
        timeout: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_end: Callable[[CallOutcome], None] | None = None,
        inline: bool = False,
    ) -> Call:
        """Start a call; connect the apps named at the start first.

        Args:
            capability: Its name.
            params: Checked against its input schema.
            app: The app's id, if several have the capability.
            timeout: The app's time in seconds, without the user's; None for the session's own.
            on_progress: Receives the app's reports.
            on_end: Receives the outcome once.
            inline: Keep the data as the app gave them; save nothing to files.

        Raises:
            SessionError: No app or several apps have the capability, or `params` do not fit.
        """
        if not self._having(capability, app) and (self._not_connected() or not self._apps):
            await self.connect(None)
        connection, known = self._find(capability, app)
        if problems := known.parameter_errors(params):
            offers = [each for each in _offers(connection) if each.capability is known]
            raise SessionError(
                "INVALID_PARAMS",
                f"The parameters of {capability} do not fit: {'; '.join(problems)}.",
                offers,
            )
        chosen = approval.needs_approval(known, self._settings.confirm)
        ask_approval = partial(self._ask_approval, connection, known, params)
        call = Call(
            self.new_id("call"),
            connection.app,
            capability,
            params,
            timeout=timeout or self._settings.call_timeout,
            on_progress=on_progress,
            on_end=on_end,
            withdraw=self.elicitor.withdraw,
            keep=_keep_inline if inline else partial(self._keep, connection),
            ask_approval=ask_approval if chosen or known.needs_approval else None,
            count_lost=lambda: sum(self.host.lost_notifications().values()),
        )
        connection.add_call(call)
        self._workers.start_soon(self._run, connection, call)
        return call

    async def start_question(
        self,
        kind: Kind,
        params: JsonObject,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        on_end: Callable[[CallOutcome], None] | None = None,
    ) -> Call:
        """Ask the user what the host's own model wants to know; the call's outcome is the answer.

        Args:
            kind: The kind of question.
            params: As an ABP app would give them.
            on_progress: Receives reports while a model answers.
            on_end: As for `start`.

        Raises:
            SessionError: `INVALID_PARAMS`: it cannot be asked, or asks for a secret.
        """
        try:
            question = abp.decode_question(
                {"method": kind.value, "params": params},
                id=self.new_id("question"),
                origin=f"the model of {self.host.name}",
                overrules=False,
            )
        except RemoteProtocolError as problem:
            raise SessionError("INVALID_PARAMS", f"Nobody can be asked this: {problem}.") from None
        if question.secret:
            raise SessionError(
                "INVALID_PARAMS", "A secret is nothing for a model to ask for: it would read it."
            )
        call = Call(
            self.new_id("call"),
            OwnQuestion(question, self.elicitor, self._own_calls),
            "abp_ask",
            params,
            timeout=self._settings.call_timeout,
            on_progress=on_progress,
            on_end=on_end,
            withdraw=self.elicitor.withdraw,
            keep=partial(self._results.keep, "answers", download=_refuse_download),
        )
        self._own_calls[call.id] = call
        self._workers.start_soon(self._run_own, call)
        return call

    async def render_pdf(self, app: str | None) -> SavedFile:
        """Save the page of `app`, or of the first app that has one, as a PDF.

        Raises:
            SessionError: `NOT_SUPPORTED` if there is no page, else the app's error.
        """
        able = (
            [each for each in self._apps.values() if each.app.renders]
            if app is None
            else [self._connection(app)]
        )
        if not able:
            raise SessionError(
                "NOT_SUPPORTED",
                "No connected app has a page. Connect one by its http(s) address first.",
            )
        try:
            content = await able[0].app.render_pdf()
            id = able[0].id
            return await self._results.save(id, content, "application/pdf", f"{id}.pdf")
        except AppError as problem:
            raise SessionError(problem.code, str(problem)) from None
        except OSError as problem:
            raise SessionError(
                "OPERATION_FAILED", f"The PDF could not be saved: {problem}"
            ) from None

    @property
    def renders(self) -> bool:
        """Whether a connected app has a page."""
        return any(each.app.renders for each in self._apps.values())

    def resources(self) -> Sequence[Resource]:
        """Return the state fields and the saved files."""
        states = [
            Resource(
                state_uri(app.id, field),
                f"{app.id}: {field}",
                "State that the app told",
                "application/json",
            )
            for app in self._apps.values()
            for field in app.state
        ]
        files = [
            Resource(file.uri, file.name, describe_place(file), file.mime_type, file.size)
            for file in self._results.saved()
        ]
        return states + files

    def read(self, uri: str) -> tuple[str, str | bytes]:
        """Return the MIME type and content of a resource: str for text, else bytes.

        Raises:
            SessionError: `UNKNOWN_RESOURCE`, or `OPERATION_FAILED` for an unreadable file.
        """
        for app in self._apps.values():
            for field, value in app.state.items():
                if state_uri(app.id, field) == uri:
                    return "application/json", json.dumps(value, ensure_ascii=False)
        file = self._results.find_file(uri)
        if file is None:
            raise SessionError(
                "UNKNOWN_RESOURCE",
                f"There is no resource {label(uri)!r}; resources/list names those there are.",
            )
        try:
            content = self._results.read_file(file)
        except OSError as problem:
            raise SessionError("OPERATION_FAILED", f"{uri} cannot be read: {problem}") from None
        if file.mime_type.startswith(("text/", "application/json")):
            with contextlib.suppress(UnicodeDecodeError):
                return file.mime_type, content.decode()
        return file.mime_type, content

    def status(self) -> dict[str, JsonValue]:
        """Return the session's state as JSON, without any answer.

        Returns:
            `{host, surfaces, apps, notConnected, questions, lostNotifications?, notInInbox?,
                confirm?,
            warnings?}`. `apps` has an `AppConnection.status` by id; `notConnected` lists `{app,
            problem, toolsKnown?}`; `confirm` has the capabilities by what the user chose to
                confirm.
        """
        lost = dict(self.host.lost_notifications())
        unlisted = self._inbox_problem()
        return {
            "host": self.host.name,
            "surfaces": describe_surfaces(self._router),
            "apps": {app.id: app.status() for app in self._apps.values()},
            "notConnected": [
                {
                    "app": show_target(target),
                    "problem": self._failures.get(target, ""),
                    **self._tools_known(target),
                }
                for target in self._not_connected()
            ],
            "questions": describe_questions(self.elicitor.ledger, self.elicitor.seconds_left),
            **({"lostNotifications": lost} if lost else {}),
            **({"notInInbox": unlisted} if unlisted else {}),
            **self._confirmed(),
        }

    def _tools_known(self, target: str) -> dict[str, JsonValue]:
        known = self._known
        return {} if known is None else {"toolsKnown": known.recall(target) is not None}

    def _confirmed(self) -> dict[str, JsonValue]:
        """Return the capabilities that each `--confirm` word selects."""
        offered = [each.capability for each in self.capabilities()]
        chosen: dict[str, JsonValue] = {
            word: [each.name for each in offered if approval.needs_approval(each, [word])]
            for word in self._settings.confirm
        }
        strange = self._strange_names()
        return {
            **({"confirm": chosen} if chosen else {}),
            **({"warnings": strange} if strange else {}),
        }

    def _strange_names(self) -> list[str]:
        if not self._apps or not self._settings.confirm:
            return []
        offered = [each.capability for each in self.capabilities()]
        return [
            f"--confirm {name}: no connected app has a capability of that name, and nobody is asked"
            f" before one{hint}"
            for name, hint in approval.strange_names(self._settings.confirm, offered)
        ]

    async def close(self, reason: str) -> None:
        """End the session within `CLOSE_LIMIT`: calls, apps and temporary files."""
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            for call in list(self._own_calls.values()):
                call.cancel(reason)
            leaving = list(self._apps.values())
            for connection in leaving:
                connection.on_disconnect(reason)
            for connection in leaving:
                await connection.closed.wait()
        self._results.remove_temporary()
        self._workers.close()

    # --- ConnectionOwner ---

    def new_id(self, kind: str) -> str:
        """An id that the session has not used: `call-1`, `question-2`."""
        self._serial += 1
        return f"{kind}-{self._serial}"

    def admit(self, connection: AppConnection, wanted: str) -> None:
        """Give an open connection its id, made from `wanted`, and notify the host."""
        stem = (
            "-".join(
                "".join(
                    letter if letter.isascii() and letter.isalnum() else " "
                    for letter in wanted.lower()
                ).split()
            )[:32]
            or "app"
        )
        id, number = stem, 2
        while id in self._apps:
            id, number = f"{stem}-{number}", number + 1
        connection.id = id
        self._apps[id] = connection
        self._seen.add(connection.target)
        self.on_capabilities_changed(connection)

    def on_capabilities_changed(self, connection: AppConnection) -> None:
        """Notify the host, and remember what an app that the user named offers.

        An empty list erases nothing (X12).
        """
        if self._known is not None and connection.target in self._settings.apps:
            offers, app = _offers(connection), connection.app
            if offers:
                offer = make_offer(connection.target, app.origin, offers, renders=app.renders)
                self._tasks.start_soon(self._remember, connection.target, offer)
        self.host.on_capabilities_changed()

    async def _remember(self, target: str, offer: Offer) -> None:
        assert self._known is not None
        async with self._remembering:
            await to_thread.run_sync(self._known.remember, target, offer)

    def dismiss(self, connection: AppConnection) -> None:
        """Drop a connection. Idempotent: another may have its id by now."""
        if self._apps.get(connection.id) is connection:
            del self._apps[connection.id]
            self.host.on_capabilities_changed()

    def can_sample(self) -> bool:
        """Whether any surface asks a model now."""
        return any(find_cell(QuestionShape.SAMPLING, each).asks for each in self._router.variants())

    def _on_model_progress(self, ids: Sequence[str], words: str) -> None:
        """Report how far a model is that answers a question of these calls."""
        for calls in (self._own_calls, *(each.calls for each in self._apps.values())):
            for call in filter(None, map(calls.get, ids)):
                call.on_progress(Progress(None, 0.0, status=words))

    async def _roots(self, context: AskContext) -> Sequence[str]:
        return [*self._settings.roots, *await self.host.roots(context.calls)]

    # --- apps and calls ---

    def _not_connected(self) -> list[str]:
        connected = {each.target for each in self._apps.values()}
        return [target for target in self._settings.apps if target not in connected]

    def _resolve(self, target: str) -> str:
        """Return the target that the user named; apps are shown without their secrets."""
        apps = self._settings.apps
        shown_so = [each for each in dict.fromkeys(apps) if show_target(each) == target]
        if target in apps or (not shown_so and HIDDEN not in target):
            return target
        if len(shown_so) == 1:
            return shown_so[0]
        which = "Several apps are" if shown_so else "No app of this session is"
        raise SessionError(
            "INVALID_PARAMS",
            f"{which} shown as {label(target)!r}. Without a target all are connected.",
        )

    async def _connect(self, target: str) -> None:
        if any(each.target == target for each in self._apps.values()):
            return
        try:
            app = self._make_app(target, target in self._settings.apps)
            connection = AppConnection(self, target, app)
            await self._tasks.start(connection.live)
            load_fast_codec()
            await self._router.make_ready()
        except AppError as problem:
            raise SessionError(problem.code, str(problem)) from None
        if connection not in self._apps.values():
            raise SessionError("DISCONNECTED", f"It ended at once: {connection.reason}.")

    def _connection(self, id: str) -> AppConnection:
        if id not in self._apps:
            raise SessionError(
                "DISCONNECTED",
                f"There is no connected app {label(id)!r}; abp_status lists those there are.",
            )
        return self._apps[id]

    def _having(self, capability: str, app: str | None) -> list[AppConnection]:
        return [
            each
            for each in self._apps.values()
            if app in (None, each.id) and capability in each.capabilities
        ]

    def _find(self, capability: str, app: str | None) -> tuple[AppConnection, Capability]:
        if app is not None:
            self._connection(app)
        found = self._having(capability, app)
        if len(found) == 1:
            return found[0], found[0].capabilities[capability]
        if len(found) > 1:
            raise SessionError(
                "INVALID_PARAMS",
                f"Several apps have {capability}: name one of"
                f" {', '.join(each.id for each in found)} as app.",
            )
        offers = {
            offer.capability.name: offer
            for offer in self.capabilities()
            if app in (None, offer.app)
        }
        known = nearest_first(capability, list(offers))
        more = f" and {len(known) - 50} more" if len(known) > 50 else ""
        shown = (
            f"Known are {', '.join(known[:50])}{more}."
            if known
            else "The app names no capabilities."
        )
        raise SessionError(
            "UNKNOWN_CAPABILITY",
            f"There is no capability {label(capability)!r}. {shown}",
            [offers[name] for name in known],
        )

    async def _keep(self, connection: AppConnection, result: CallResult) -> KeptResult:
        return await self._results.keep(connection.id, result, connection.app.download)

    async def _ask_approval(
        self, connection: AppConnection, capability: Capability, params: JsonObject, call: str
    ) -> CallResult | None:
        """Return None if the user allows `call`, else its result."""
        question = approval.make_question(
            self.new_id("question"),
            connection.app.origin,
            capability,
            params,
            name=connection.name,
        )
        asked_by = "its app asks for it" if capability.needs_approval else "--confirm"
        answer = await connection.elicit(question, AskContext(calls=(call,)))
        return approval.refusal(capability.name, answer, asked_by)

    async def _run(self, connection: AppConnection, call: Call) -> None:
        try:
            await call.run()
        finally:
            connection.end_call(call)

    async def _run_own(self, call: Call) -> None:
        try:
            await call.run()
        finally:
            del self._own_calls[call.id]


async def _keep_inline(result: CallResult) -> KeptResult:
    return KeptResult(result)


async def _refuse_download(url: str, auth: JsonObject) -> AppFile:
    raise AppError("what a person answers is not fetched", "NOT_SUPPORTED")


def _offers(connection: AppConnection) -> list[AppCapability]:
    return [
        AppCapability(connection.id, connection.app.origin, each, connection.target)
        for each in connection.capabilities.values()
    ]
