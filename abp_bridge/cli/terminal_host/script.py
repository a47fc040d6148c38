"""Written answers in the place of the person at the terminal: a question that they do not answer is
declined, and the remarks say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.question import AnsweredBy, Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.interfaces.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces.answers_file import AnswersFile, Entry

# By no entry: what is not written down is declined.
UNANSWERED = SurfaceResponse(Outcome.DECLINED, answered_by=AnsweredBy.SCRIPT)


class Script:
    """Answers questions with entries, as `AnswersFile` does; what they do not answer is
    declined.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._file = AnswersFile(entries)

    async def ask(self, question: Question) -> SurfaceResponse:
        """Answer by the first entry that matches (`AnswersFile.ask`), else decline."""
        try:
            return await self._file.ask(question)
        except SurfaceUnsupportedError:
            return UNANSWERED

    @property
    def misfits(self) -> list[str]:
        """The answers that did not answer, a sentence each."""
        return [
            f"{each.problem[:1].upper()}{each.problem[1:]}. Declined."
            for each in self._file.asked
            if each.problem and each.entry is not None
        ]

    def remarks(self) -> list[str]:
        """What did not go as written, a sentence each."""
        said = self.misfits
        if unanswered := [
            label(each.message) for each in self._file.asked if each.problem and each.entry is None
        ]:
            one = len(unanswered) == 1
            count = "a question, which was" if one else f"{len(unanswered)} questions, which were"
            said.append(f"No answer was left for {count} declined: {'; '.join(unanswered)}")
        if unused := self._file.unused:
            entries = "entry" if len(unused) == 1 else "entries"
            said.append(f"No question used the {entries} {', '.join(map(str, unused))}.")
        return said
