"""Which surface a question goes to next.

Pure: `Routing` is told how each attempt ended, and asks nobody itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from abp_bridge.core.answer import Answer
from abp_bridge.core.matrix import (
    NOBODY,
    Attempt,
    SurfaceVariant,
    candidate_attempts,
    find_ways,
    refusals,
)
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MAX_MESSAGE, UNASKED, Kind, Permission, Question
from abp_bridge.core.surface import TRAITS, Advice, Options, Surface
from abp_bridge.session.surface import HostUnattendedError, SurfaceUnsupportedError

_TOO_LONG = "it cannot be shown whole here, and nobody says yes to what they do not see"


class Routing:
    """One question's way through the surfaces that can ask it, best first."""

    def __init__(self, question: Question, variants: Sequence[SurfaceVariant]) -> None:
        self._fallback: Answer | None = None
        self._is_unattended = False  # a host says so
        self._question = question
        self._variants = variants
        self._problems: list[str] = []

    def attempts(self) -> Iterator[Attempt]:
        """Where to ask, one after the other, as long as none of them ends it."""
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
        """Whether `answer` ends the question.

        It does not, and the next surface is tried, where the host answered by itself, where nobody
        knows who declined or dismissed it, and where what was accepted needs proof of a person and
        has none. The first such answer is the `fallback`.
        """
        accepted = answer.outcome is Outcome.ACCEPTED
        nobody = (AnsweredBy.HOST_POLICY, *([] if accepted else [AnsweredBy.UNKNOWN]))
        if answer.answered_by in nobody or answer.outcome is Outcome.UNSUPPORTED:
            self._fallback = self._fallback or answer
            return False
        return True

    def fallback(self, advice: Advice) -> Answer | None:
        """What the host answered by itself, without a person: the question's answer if no other
        surface finds one. Where it was asked for approval, with what gets a person asked.
        """
        options = self._missing(advice).items()
        ways = [way.give for surface, way in options if TRAITS[surface].is_by_hand]
        if self._fallback is None or not self._question.permits or not ways:
            return self._fallback
        reason = f"{self._fallback.reason} To be asked yourself, set up {' or '.join(ways)}."
        return replace(self._fallback, reason=reason)

    def tried(self) -> list[str]:
        """Each of the surfaces with the reason why nobody was asked there; one line where there is
        none.
        """
        by_itself = self._fallback
        said = [] if by_itself is None else [f"{by_itself.route}: {by_itself.reason}"]
        return [*said, *self._problems, *self._refusals()] or [NOBODY]

    def _refusals(self) -> list[str]:
        """The surfaces that cannot ask it, but for those of which nobody expects that: people,
        where a model has said why it does not answer, and the model that people are asked about.
        """
        if self._question.kind is Kind.SAMPLING and self._problems:
            return []
        approves = self._question.permits is Permission.SAMPLING
        who = [each for each in self._variants if not (approves and TRAITS[each.surface].is_model)]
        return refusals(self._question, who)

    def reason(self, advice: Advice) -> str:
        """Why nobody could be asked, for the app's developer: each surface with its reason, and the
        one that the person could set up.
        """
        reasons = self.tried()
        for surface, way in self._missing(advice).items():
            if surface in (Surface.PAGE, Surface.SAMPLING):
                reasons.append(f"{surface.value}: not set up ({way.give})")
        return f"{UNASKED}{'; '.join(reasons)}"

    def ways(self, advice: Advice) -> list[str]:
        """How the person would be asked, in words: in the host first, then beside it."""
        return [*advice.ways, *map(str, self._missing(advice).values())]

    def _missing(self, advice: Advice) -> Options:
        """What the person could set up for this question."""
        there = {variant.surface for variant in self._variants}
        return find_ways(self._question, there, advice.options)
