"""The telemetry of command lines whose stdout does not tell why their model stopped: how they are
had to write it into a file, and what stands there of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from abp_bridge.core.json_value import as_object, as_texts, parse_json

_END = b"\n}\n"  # of a record: within one, each line is indented, and no text has a line's end


@dataclass(frozen=True, slots=True)
class Telemetry:
    """That of one command line, in the format of OpenTelemetry's SDK for JavaScript.

    Attributes:
        prefix: What the names of its variables begin with.
        reasons: The attribute of a record that has why a model stopped.
        purpose: The attribute that says what the model was asked for.
        answer: Its value where that was the answer, and no title, summary or route.
    """

    prefix: str
    reasons: str
    purpose: str
    answer: str

    def environment(self, file: str) -> dict[str, str]:
        """The variables that have it write its records into `file`, and nowhere else, without the
        words of a prompt.
        """
        values = {"ENABLED": "true", "TARGET": "local", "LOG_PROMPTS": "false", "OUTFILE": file}
        return {f"{self.prefix}_{name}": value for name, value in values.items()}

    def decode_stop_reason(self, records: bytes) -> str | None:
        """Why the model stopped in the end, in its API's word, in lower case; None where that is
        not said.

        Args:
            records: The file, or the end of it: JSON objects, indented.
        """
        found = None
        for text in records.split(_END):
            if self.reasons.encode() not in text:
                continue
            try:
                record = as_object(parse_json(text + _END))
            except ValueError:  # its beginning is cut off, or its program was ended
                continue
            about = as_object(record.get("attributes"))
            reasons = as_texts(about.get(self.reasons))
            if reasons and about.get(self.purpose) == self.answer:
                found = reasons[-1].lower()
        return found
