"""Every sentence of ours on the page, in the languages that there are: a catalogue for each, of
the same keys and placeholders. Pure, but for the reading of those files.

What an app says is in its own language, and so is a problem that the core finds with an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from markupsafe import Markup

_HERE = Path(__file__).parent / "languages"
FALLBACK = "en"
LANGUAGES = tuple(sorted(each.stem for each in _HERE.glob("*.json")))
_FOR_SCRIPTS = ("script.", "time.", "title.closed")
_ISOLATED = Markup("<bdi>{}</bdi>")
MAX_HEADER = 1_000  # characters of `Accept-Language` that are read: browsers send some 50


class Words:
    """The sentences of one language.

    Attributes:
        language: Its tag, as HTML's `lang` has it.
    """

    def __init__(self, language: str, sentences: Mapping[str, str]) -> None:
        self.language = language
        self.sentences = sentences

    def __call__(self, key: str, **values: object) -> str:
        """The sentence with its values, as plain text.

        Raises:
            KeyError: There is no such sentence, or a value is missing.
        """
        return self.sentences[key].format(**values)

    def html(self, key: str, **values: object) -> Markup:
        """The same for a page: each value escaped, and isolated from the direction around it."""
        isolated = {name: _ISOLATED.format(value) for name, value in values.items()}
        return Markup.escape(self.sentences[key]).format(**isolated)

    def count(self, key: str, count: int) -> str:
        """The sentence for one, or for so many."""
        return self(f"{key}.one" if count == 1 else f"{key}.other", count=count)

    def for_scripts(self) -> str:
        """What the page's script says, as JSON."""
        found = {
            key: words for key, words in self.sentences.items() if key.startswith(_FOR_SCRIPTS)
        }
        return json.dumps(found, ensure_ascii=False)


@cache
def words_of(language: str) -> Words:
    """The catalogue of one of `LANGUAGES`."""
    return Words(language, json.loads((_HERE / f"{language}.json").read_text(encoding="utf-8")))


ENGLISH = words_of(FALLBACK)


def choose(accept_language: str) -> Words:
    """The words for a browser that sends this `Accept-Language`: the best that there are, English
    where none of those is meant.
    """
    wanted: list[tuple[float, str]] = []
    for part in accept_language[:MAX_HEADER].split(","):
        tag, _, quality = part.replace(" ", "").partition(";q=")
        language = tag.lower().partition("-")[0]
        if language in LANGUAGES and (weight := _weight(quality)) > 0:
            wanted.append((weight, language))
    best = max(wanted, key=lambda each: each[0], default=(0.0, FALLBACK))
    return words_of(best[1])


def _weight(quality: str) -> float:
    try:
        return float(quality or 1)
    except ValueError:
        return 0.0
