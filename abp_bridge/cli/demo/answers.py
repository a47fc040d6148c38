"""The demo's written answers: the person's answers file, and the demo's own script where there is
no terminal.

A question that they do not answer is declined, and the remarks say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.json_value import Json
from abp_bridge.core.question import Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.interfaces.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces.answers_file import AnswersFile, Entry


class Script:
    """Answers questions with entries, as `AnswersFile` does; what they do not answer is
    declined.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._file = AnswersFile(entries)

    async def ask(self, question: Question) -> SurfaceResponse:
        """Answer by the first entry that matches, else decline (`AnswersFile.ask`)."""
        try:
            return await self._file.ask(question)
        except SurfaceUnsupportedError:
            return SurfaceResponse(Outcome.DECLINED)

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
            label(each.message, 80)
            for each in self._file.asked
            if each.problem and each.entry is None
        ]:
            said.append(
                f"No answer was left for {len(unanswered)} questions, which were declined:"
                f" {'; '.join(unanswered)}"
            )
        if unused := self._file.unused:
            said.append(f"No question used the entries {', '.join(map(str, unused))}.")
        return said


# A no, a decline and a cancel too: they are answers that a person gives.
BUILT_IN: tuple[Json, ...] = (
    {"match": "Whose trip", "value": "Ada Example"},
    {"match": "ticket be sent", "value": "ada@example.org"},
    {"match": "Sea or mountains", "value": "sea"},
    {"match": "season", "value": "autumn"},
    {"match": "month", "value": "09"},
    {"match": "How many travellers", "value": 2},
    {"match": "cost at most", "action": "cancel"},
    {"match": "By train", "value": True},
    {"match": "Which class", "value": "second"},
    {"match": "Who should be called", "content": {"name": "Grace Example"}},
    {"match": "Window or aisle", "action": "decline"},
    {"match": "Book it", "value": True},
    {"match": "Delete the draft", "value": "No, do not"},
)
