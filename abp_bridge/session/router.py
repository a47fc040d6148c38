"""`Router.route`: which surface shows a question, what is asked again, and who answered.

The order of surfaces is the user's (`--ask-on`), else prepared answers, the host, the user's own
surfaces, and a model last. The matrix says which of them can ask the question. An answer that does
not fit is asked for again in plainer form; an answer that does not count sends the question to the
next surface.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from abp_bridge.core import schema
from abp_bridge.core.answer import Answer, answer_errors, field_errors, validate_answer
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.matrix import (
    NOBODY,
    Attempt,
    SurfaceVariant,
    asks_by_entries,
    candidate_attempts,
    find_ways,
    narrow,
    refusals,
    usable,
)
from abp_bridge.core.menu import walk
from abp_bridge.core.outcome import (
    SIMILAR,
    AnsweredBy,
    Evidence,
    Observation,
    Outcome,
    Verdict,
    describe_outcome,
    is_preset,
    judge,
    needs_proof,
    reading_time,
)
from abp_bridge.core.question import MAX_MESSAGE, MISSING, UNASKED, Kind, Permission, Question
from abp_bridge.core.surface import HOST, ORDER, TRAITS, Advice, Options, Surface
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.loop import now
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import (
    Advising,
    HostUnattendedError,
    InputProvider,
    OnModelProgress,
    OwnSurface,
    Resolve,
    SurfaceResponse,
    SurfaceUnsupportedError,
    find_answerer,
    median,
)

logger = logging.getLogger(__name__)

MAX_REPEATS = 2  # times that an answer which does not fit is asked for again

_RELAY = Surface.MODEL_RELAY.value
_TOO_LONG = "it cannot be shown whole here, and nobody says yes to what they do not see"
_AGAIN = "You are asked here because what was answered elsewhere does not count as a person's."
_NEEDED = "what cannot be asked there is needed with what was answered"


class Router:
    """The surfaces of one session: its host's, and the user's own.

    Args:
        host: The host; it alone can ask through its model.
        own: The user's own surfaces.
        order: The names of the surfaces in the order they are tried.
        min_human_latency: Seconds that a user needs to read anything; 0 to believe each answer.
    """

    def __init__(
        self,
        host: InputProvider,
        own: Mapping[Surface, InputProvider] | None = None,
        order: Sequence[str] = ORDER,
        *,
        min_human_latency: float,
    ) -> None:
        self._host = host
        self._own = {surface.value: provider for surface, provider in (own or {}).items()}
        self._order = order
        self._ready: dict[str, str] = {}  # where a surface was found, or why it is not there
        self._attribution = AnswerAttribution(min_human_latency)

    def attach(self, resolve: Resolve, on_progress: OnModelProgress) -> None:
        for provider in self._own.values():
            if isinstance(provider, OwnSurface):
                provider.attach(resolve, on_progress)

    async def make_ready(self) -> None:
        """Start the surfaces that must be found before an app asks."""
        for name, provider in self._own.items():
            if name in self._order and isinstance(provider, OwnSurface):
                try:
                    if place := await provider.make_ready():
                        self._ready[name] = place
                except SurfaceUnsupportedError as problem:  # reported again with the question
                    self._ready[name] = f"not there: {problem}"

    @property
    def places(self) -> Mapping[str, str]:
        """Where each surface is found, or why it is not, by the name it was set up by."""
        return self._ready | {
            name: provider.place
            for name, provider in self._own.items()
            if isinstance(provider, OwnSurface) and provider.place
        }

    def variants(self, calls: Sequence[str] = ()) -> list[SurfaceVariant]:
        """Return the surfaces that a question of one of `calls` can be asked on, best first."""
        return [variant for _, variant in self.variants_by_owner(calls)]

    def variants_by_owner(self, calls: Sequence[str] = ()) -> list[tuple[str, SurfaceVariant]]:
        """Return the same, each with the name it was set up by, or `HOST`."""
        hosts = self._host.variants(calls)
        found: list[tuple[str, SurfaceVariant]] = []
        for name in self._order:
            if name in (HOST, _RELAY):
                relays = name == _RELAY
                there = [each for each in hosts if (each.surface.value == _RELAY) is relays]
            else:
                provider = self._own.get(name)
                there = [] if provider is None else list(provider.variants(calls))
            found += [(name, variant) for variant in there]
        return found

    async def route(self, question: Question, context: AskContext) -> Answer:
        """Put `question` to the surfaces until an answer counts.

        Else return what the host answered by itself, or why none could ask.

        Raises:
            RouteChangedError: Call this again.
            HostDisconnectedError: The question ends, as it says.
            HostTimeoutError: It ends, as timed out.
            SurfaceFailedError: It ends, without an answer that counts.
        """
        asking = context.asking
        assert asking is not None, "only an open question is routed"
        shown = question
        routing = Routing(question, self.variants(context.calls))
        for attempt in routing.attempts():
            asking.show_on(attempt.name, context.observe)
            asked, started = narrow(shown, attempt), now()
            try:
                response, route = await self._ask_until_valid(asked, context, attempt)
                answer = self._judge(asked, attempt, response, route, started)
                answer = _checked(shown, attempt, answer)
            except (SurfaceUnsupportedError, RemoteProtocolError) as problem:
                kind = type(problem).__name__
                logger.debug("%s: %s could not ask (%s)", question.id, attempt.name, kind)
                routing.refuse(attempt, problem)
                continue
            if routing.conclude(answer):
                return answer
            shown = question.with_note(f"{_AGAIN} {answer.reason}".rstrip())
        host = self._host
        advice = host.advise(shown, context) if isinstance(host, Advising) else Advice()
        unasked = asking.unanswered(Outcome.UNSUPPORTED, routing.reason(advice))
        answer = routing.fallback(advice) or unasked
        if not answer.unasked:
            return answer
        return replace(answer, tried=tuple(routing.tried()), ways=tuple(routing.ways(advice)))

    def _judge(
        self,
        question: Question,
        attempt: Attempt,
        response: SurfaceResponse,
        route: str,
        started: float,
    ) -> Answer:
        """Return the answer with who gave it; unsupported if it lacks needed proof of a user."""
        variant = response.variant or attempt.variant
        verdict = self._attribution.attribute(question, variant, response, started)
        answer = Answer(
            response.outcome,
            verdict.answered_by,
            content=response.content,
            evidence=verdict.evidence,
            route=route,
            latency=now() - started,
            reason=_reason(response, verdict),
            unchecked=_unsupported_keywords(question),
            metadata=response.metadata,
            host_meta=response.host_meta,
        )
        own = self._attribution.are_own_words(variant, verdict)
        proven = own or verdict.answered_by is AnsweredBy.PERSON
        if proven or not needs_proof(question, response.outcome, response.content):
            return answer
        reason = f"{verdict.reason} So it is not accepted."
        return replace(answer, outcome=Outcome.UNSUPPORTED, content={}, reason=reason)

    async def _ask_until_valid(
        self, question: Question, context: AskContext, attempt: Attempt
    ) -> tuple[SurfaceResponse, str]:
        """Return the response with validated content, and its route.

        Ask again at most `MAX_REPEATS` times, in plainer form, and only for the wrong fields.
        """
        if asks_by_entries(question, attempt.variant):
            return await self._ask_entries(question, context, attempt), attempt.name
        provider = self._provider(attempt.variant)
        response = await provider.prompt(question, context, attempt.variant)
        response, problems = _validate(question, response)
        if not problems:
            return response, attempt.name
        plain = replace(attempt.variant, plain=True)
        surface = plain.surface.value
        if len(question.fields) == 1:
            response = await self._repeat(question, context, plain, problems)
            return response, f"{surface} (asked again)"
        response = await self._ask_wrong_fields(question, context, plain, response)
        return response, f"{surface} (one field at a time)"

    async def _ask_entries(
        self, question: Question, context: AskContext, attempt: Attempt
    ) -> SurfaceResponse:
        """Ask list by list and entry by entry; prefill what must be asked again."""
        content, steps, todo = dict[str, JsonValue](), list[SurfaceResponse](), question
        response = SurfaceResponse(Outcome.INVALID)
        for _ in range(1 + MAX_REPEATS):
            walked, names = walk(todo), {each.name for each in todo.fields}
            asked: Question | None = next(walked)
            while asked is not None:
                response, _ = await self._ask_until_valid(asked, context, attempt)
                if response.outcome is not Outcome.ACCEPTED:
                    return response
                steps.append(response)
                try:
                    asked = walked.send(response.content)
                except StopIteration as end:
                    kept = {name: value for name, value in content.items() if name not in names}
                    content, asked = kept | end.value, None
            if not (problems := answer_errors(question, content)):
                return _join(steps, content)
            wrong = field_errors(question, content)
            fields = tuple(each for each in question.fields if not wrong or each.name in wrong)
            todo = _prefilled(replace(question, fields=fields), content)
            todo = todo.with_note(f"Please answer again: {'; '.join(problems)}.")
        return _invalid(response)

    async def _ask_wrong_fields(
        self,
        question: Question,
        context: AskContext,
        plain: SurfaceVariant,
        response: SurfaceResponse,
    ) -> SurfaceResponse:
        """Ask for each wrong field and keep the rest; for all, prefilled, if only the whole is
        wrong.

        An empty response left nothing empty on purpose.
        """
        content, steps = dict(response.content), [response]
        for _ in range(MAX_REPEATS):
            nothing = all(value is None for value in content.values())
            wrong = field_errors(question, content)
            for field in question.fields:
                if not nothing and field.name not in wrong:
                    continue
                content.pop(field.name, None)
                problems = wrong.get(field.name, [])
                said = [f"{field.label}{words.removeprefix(field.name)}" for words in problems]
                only = replace(question, fields=(field,))
                response = await self._repeat(only, context, plain, said)
                if response.outcome is not Outcome.ACCEPTED:
                    return response
                content |= response.content
                steps.append(response)
            if not (problems := answer_errors(question, content)):
                break
            filled = _prefilled(question, content)
            provider = self._provider(plain)
            response = await provider.prompt(filled, context, plain, "; ".join(problems))
            response, problems = _validate(question, response)
            if response.outcome is not Outcome.ACCEPTED:
                return response
            content = dict(response.content)
            steps.append(response)
            if not problems:
                break
        else:
            return _invalid(response)
        return _join(steps, content)

    async def _repeat(
        self,
        question: Question,
        context: AskContext,
        plain: SurfaceVariant,
        problems: Sequence[str],
    ) -> SurfaceResponse:
        """Ask again until the answer fits, at most `MAX_REPEATS` times."""
        provider = self._provider(plain)
        repeats = 0
        while True:
            response = await provider.prompt(question, context, plain, "; ".join(problems))
            response, problems = _validate(question, response)
            repeats += 1
            if not problems:
                return response
            if repeats == MAX_REPEATS:
                return _invalid(response)

    def _provider(self, variant: SurfaceVariant) -> InputProvider:
        return self._own.get(variant.surface.value, self._host)


def describe_surfaces(router: Router) -> list[JsonValue]:
    """The surfaces that can ask anything, best first: `{surface, version, provider, at?}`."""
    return [
        {"surface": variant.surface.value, "version": variant.version, "provider": owner}
        | ({"at": router.places[owner]} if owner in router.places else {})
        for owner, variant in router.variants_by_owner()
        if usable(variant)
    ]


class Routing:
    """One question's way through the surfaces that can ask it, best first."""

    def __init__(self, question: Question, variants: Sequence[SurfaceVariant]) -> None:
        self._fallback: Answer | None = None
        self._is_unattended = False  # a host says so
        self._question = question
        self._variants = variants
        self._problems: list[str] = []

    def attempts(self) -> Iterator[Attempt]:
        """Yield where to ask, as long as no attempt ends the question."""
        for attempt in candidate_attempts(self._question, self._variants):
            traits = TRAITS[attempt.variant.surface]
            room = MAX_MESSAGE if traits.is_long else 0
            if len(self._question.uncut) > room:
                self.refuse(attempt, SurfaceUnsupportedError(_TOO_LONG, lasting=False))
                continue
            # A host without a person has nobody to send anywhere, or to say anything next.
            is_alone = self._is_unattended or self._fallback is not None
            if not (is_alone and traits.is_attended):
                yield attempt

    def refuse(self, attempt: Attempt, problem: Exception) -> None:
        """The surface cannot ask it after all."""
        self._is_unattended |= isinstance(problem, HostUnattendedError)
        self._problems.append(f"{attempt.variant.surface.value}: {problem}")

    def conclude(self, answer: Answer) -> bool:
        """Return whether `answer` ends the question.

        It does not if the host answered by itself, if it is unknown who declined or dismissed it,
        or if it lacks the needed proof of a user. The first such answer is the `fallback`.
        """
        accepted = answer.outcome is Outcome.ACCEPTED
        nobody = (AnsweredBy.HOST_POLICY, *([] if accepted else [AnsweredBy.UNKNOWN]))
        if answer.answered_by in nobody or answer.outcome is Outcome.UNSUPPORTED:
            self._fallback = self._fallback or answer
            return False
        return True

    def fallback(self, advice: Advice) -> Answer | None:
        """Return what the host answered by itself; for an approval, with how to be asked."""
        options = self._missing(advice).items()
        ways = [way.give for surface, way in options if TRAITS[surface].is_by_hand]
        if self._fallback is None or not self._question.permits or not ways:
            return self._fallback
        reason = f"{self._fallback.reason} To be asked yourself, set up {' or '.join(ways)}."
        return replace(self._fallback, reason=reason)

    def tried(self) -> list[str]:
        """Return why each surface did not ask; at least one line."""
        by_itself = self._fallback
        said = [] if by_itself is None else [f"{by_itself.route}: {by_itself.reason}"]
        return [*said, *self._problems, *self._refusals()] or [NOBODY]

    def _refusals(self) -> list[str]:
        """Return the surfaces that cannot ask it, except where that is expected."""
        if self._question.kind is Kind.SAMPLING and self._problems:
            return []
        approves = self._question.permits is Permission.SAMPLING
        who = [each for each in self._variants if not (approves and TRAITS[each.surface].is_model)]
        return refusals(self._question, who)

    def reason(self, advice: Advice) -> str:
        """Return why no one could be asked, for the app's developer."""
        reasons = self.tried()
        for surface, way in self._missing(advice).items():
            if surface in (Surface.PAGE, Surface.SAMPLING):
                reasons.append(f"{surface.value}: not set up ({way.give})")
        return f"{UNASKED}{'; '.join(reasons)}"

    def ways(self, advice: Advice) -> list[str]:
        """Return how the user could be asked: in the host first, then beside it."""
        return [*advice.ways, *map(str, self._missing(advice).values())]

    def _missing(self, advice: Advice) -> Options:
        """Return what the user could set up for this question."""
        there = {variant.surface for variant in self._variants}
        return find_ways(self._question, there, advice.options)


class AnswerAttribution:
    """Decide who gave each answer of one host, in view of the answers before.

    Args:
        shortest_reading: Seconds that a user needs to read anything; 0 to believe each answer.
    """

    def __init__(self, shortest_reading: float) -> None:
        self._shortest_reading = shortest_reading
        self._before: deque[Observation] = deque(maxlen=SIMILAR - 1)
        self._answered = -inf  # when the last of them came, by the loop's clock in seconds

    def attribute(
        self, question: Question, variant: SurfaceVariant, response: SurfaceResponse, asked: float
    ) -> Verdict:
        """Return who gave `response`; `asked` is the loop's clock in seconds."""
        if response.verdict is not None:
            return response.verdict
        traits = TRAITS[variant.surface]
        by_hand = response.seconds is None
        preset = is_preset(
            question,
            response.outcome,
            response.content,
            by_buttons=traits.has_buttons,
        )
        seen = Observation(response.seconds or 0.0, preset, response.exact)
        machine = traits.machine
        if question.kind is Kind.SAMPLING and response.outcome is Outcome.ACCEPTED:
            machine = machine or AnsweredBy.MODEL
        before = tuple(self._before)
        if machine is None and not by_hand:
            if asked < self._answered:  # shown together: each waited for the same first answer
                before = ()
                self._before.clear()
            self._answered = now()
            self._before.append(seen)
        reading = reading_time(question, self._shortest_reading)
        may_be_unattended = variant.may_dismiss_unattended and response.outcome is Outcome.CANCELLED
        return judge(
            Evidence(
                seen,
                by_hand,
                machine,
                response.answered_by,
                variant.interactive,
                may_be_unattended,
                reading,
                before,
            )
        )

    def are_own_words(self, variant: SurfaceVariant, verdict: Verdict) -> bool:
        """Return whether a script's answer is the user's own: in a file, or by a trusted host."""
        believed = variant.surface is Surface.MOCK or not self._shortest_reading
        return believed and verdict.answered_by is AnsweredBy.SCRIPT


def _reason(response: SurfaceResponse, verdict: Verdict) -> str:
    """Return the reason: ours, and the host's own words marked as such."""
    ours = response.reason or verdict.reason
    if not ours and response.outcome.row.is_given:
        ours = describe_outcome(response.outcome, verdict.answered_by)
    theirs = response.host_words
    said = f'The host says: "{theirs}".' if theirs and theirs not in ours else ""
    return " ".join(filter(None, (ours, said)))


def _checked(question: Question, attempt: Attempt, answer: Answer) -> Answer:
    """Return the answer with its empty values, and with what was not asked.

    Raises SurfaceUnsupportedError if it does not fit as a whole.
    """
    if answer.outcome is Outcome.ACCEPTED:
        empty = {each.name: each.empty for each in question.fields if each.empty is not MISSING}
        if empty:
            answer = replace(answer, content={**empty, **answer.content})
    named = {"notAsked": attempt.left_out, "notChangeable": attempt.kept}
    told: JsonObject = {word: list(names) for word, names in named.items() if names}
    if not told:
        return answer
    if answer.outcome is Outcome.ACCEPTED and answer_errors(question, answer.content):
        raise SurfaceUnsupportedError(_NEEDED, lasting=False)
    return replace(answer, metadata={**answer.metadata, **told})


def _join(steps: Sequence[SurfaceResponse], content: JsonObject) -> SurfaceResponse:
    """Return the response of accepted steps: their median time, and a machine's if one step is."""
    times = [each.seconds for each in steps if each.seconds is not None]
    return replace(
        steps[-1],
        content=content,
        seconds=median(times) if times else None,
        exact=all(each.exact for each in steps),
        answered_by=find_answerer(each.answered_by for each in steps),
    )


def _prefilled(question: Question, content: JsonObject) -> Question:
    fields = (
        each if each.secret else replace(each, default=content.get(each.name, MISSING))
        for each in question.fields
    )
    return replace(question, fields=tuple(fields))


def _validate(question: Question, response: SurfaceResponse) -> tuple[SurfaceResponse, list[str]]:
    """Return the response with validated content, and the problems of that."""
    if response.outcome is not Outcome.ACCEPTED or question.kind is Kind.SAMPLING:
        return response, []
    content, problems = validate_answer(question, response.content)
    return replace(response, content=content), problems


def _invalid(response: SurfaceResponse) -> SurfaceResponse:
    """Return `response` as invalid."""
    return replace(response, outcome=Outcome.INVALID, content={})


def _unsupported_keywords(question: Question) -> tuple[str, ...]:
    """Return the keywords of the app's schemas that were not checked."""
    schemas = filter(None, (question.whole, *(field.schema for field in question.fields)))
    return tuple(sorted({word for each in schemas for word in schema.unsupported_keywords(each)}))
