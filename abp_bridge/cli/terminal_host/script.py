"""Written answers in the place of the person at the terminal: nobody answers what they do not."""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import count_of, plural
from abp_bridge.session.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces.answers_file import AnswersFile, Entry

NO_ENTRY = "no entry answers it"


class Script:
    """Answers questions with entries, as `AnswersFile` does."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._file = AnswersFile(entries)

    async def ask(self, question: Question) -> SurfaceResponse:
        """Answer by the first entry that matches (`AnswersFile.ask`); where none does, or it does
        not fit, nobody does, and the response says why.
        """
        try:
            return await self._file.ask(question)
        except SurfaceUnsupportedError as refusal:
            is_misfit = self._file.asked[-1].entry is not None
            return SurfaceResponse(
                Outcome.UNSUPPORTED,
                answered_by=AnsweredBy.NOBODY,
                reason=str(refusal) if is_misfit else NO_ENTRY,
            )

    @property
    def misfits(self) -> list[str]:
        """The answers that did not answer, a sentence each."""
        return [
            f"{each.problem[:1].upper()}{each.problem[1:]}."
            for each in self._file.asked
            if each.problem and each.entry is not None
        ]

    @property
    def unanswered(self) -> list[str]:
        """The questions that no entry answered, in a sentence, if there were any."""
        asked = [
            label(each.message) for each in self._file.asked if each.problem and each.entry is None
        ]
        count = count_of(len(asked), "question")
        return [f"No entry answers {count}: {'; '.join(asked)}"] if asked else []

    @property
    def unused(self) -> list[str]:
        """The entries that no question used, in a sentence, if there are any."""
        numbers = self._file.unused
        entries = plural(len(numbers), "entry", "entries")
        listed = ", ".join(map(str, numbers))
        return [f"No question used the {entries} {listed}."] if numbers else []
