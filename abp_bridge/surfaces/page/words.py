"""The page's sentences: one catalogue per language, with the same keys and placeholders.

What an app says, and problems that the core finds, stay in their own language.
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


class Words:
    """The sentences of one `language`, an HTML `lang` tag."""

    def __init__(self, language: str, sentences: Mapping[str, str]) -> None:
        self.language = language
        self.sentences = sentences

    def __call__(self, key: str, **values: object) -> str:
        """Return a sentence with its values, as plain text."""
        return self.sentences[key].format(**values)

    def html(self, key: str, **values: object) -> Markup:
        """Return a sentence as HTML, with each value escaped and bidirectionally isolated."""
        isolated = {name: _ISOLATED.format(value) for name, value in values.items()}
        return Markup.escape(self.sentences[key]).format(**isolated)

    def count(self, key: str, count: int) -> str:
        """Return the singular or plural sentence."""
        return self(f"{key}.one" if count == 1 else f"{key}.other", count=count)

    def for_scripts(self) -> str:
        """Return the sentences of the page's script, as JSON."""
        found = {
            key: words for key, words in self.sentences.items() if key.startswith(_FOR_SCRIPTS)
        }
        return json.dumps(found, ensure_ascii=False)


@cache
def words_of(language: str) -> Words:
    """Return the catalogue of one of `LANGUAGES`."""
    return Words(language, json.loads((_HERE / f"{language}.json").read_text(encoding="utf-8")))


ENGLISH = words_of(FALLBACK)


def choose(accept_language: str) -> Words:
    """Return the best catalogue for an `Accept-Language` header; English if none matches."""
    wanted: list[tuple[float, str]] = []
    for part in accept_language.split(","):
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
