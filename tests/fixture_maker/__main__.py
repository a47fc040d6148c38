"""python -m tests.fixture_maker [PART OF A PATH]...: makes the fixtures again, or some of them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.paths import FIXTURES

from abp_bridge.conformance.fixture import reduce
from abp_bridge.conformance.format import PERSON, Entry, lines, parse_recordings

from .cases import Case, cases
from .host import Bridge
from .person import Asked

Json = Any

AT_ONCE = 4


def make(case: Case) -> str:
    """The text of one fixture."""
    with tempfile.TemporaryDirectory(prefix="abp-fixture-") as folder:
        bridge = Bridge(case, Path(folder))
        recording = parse_recordings(bridge.play())[-1]
    model = ("--sampling", bridge.model) if bridge.model else ()
    whole = replace(recording, entries=tuple(bridge.beside.merged(recording.entries)))
    fixture = reduce(whole, case.shows, looking=case.lists)
    env = {name: value for name, value in fixture.head.env.items() if name == "ABP_PERSON_FLOOR"}
    head = replace(
        fixture.head,
        proves=tuple(case.proves) if isinstance(case.proves, list | tuple) else (case.proves,),
        files=case.files,
        patience=case.patience,
        run=_with((*case.arguments, *model), fixture.head.run),
        env=env | dict(case.env),
    )
    return "".join(lines(replace(fixture, head=head, entries=tuple(_meant(fixture.entries, case)))))


def _with(arguments: Sequence[str], run: Sequence[str]) -> tuple[str, ...]:
    """The bridge's arguments, before those of the agent."""
    own = run.index("--") if "--" in run else len(run)
    return (*run[:own], *arguments, *run[own:])


def _meant(entries: Sequence[Entry], case: Case) -> Iterator[Entry]:
    """What is said to a person or by one, as a fixture is to have it."""
    asked = iter(case.asked)
    for entry in entries:
        if entry.kind == "fill" and (each := next(asked, None)) is not None:
            yield replace(entry, value=_read(entry.value, each))
        elif entry.party == PERSON and entry.kind in ("message", "http"):
            yield replace(entry, value=_unquoted(entry.value))
        else:
            yield entry


def _read(value: Json, asked: Asked) -> Json:
    """What a person sent on the page, and what must stand there: what is asked, and all that there
    is to choose from.
    """
    reads = list(asked.reads) or [asked.words, *(label for _, label in asked.choices)]
    done = {"fill": [], "press": "send"} if asked.reads else value
    return {"open": value["open"], "reads": reads, **done}


def _unquoted(value: Json) -> Json:
    """What a program saw and said has its words in brackets already, and they are meant."""
    if isinstance(value, str):
        return value.replace("[[", "[")
    if isinstance(value, dict):
        return {name: _unquoted(each) for name, each in value.items()}
    return [_unquoted(each) for each in value] if isinstance(value, list) else value


def main(wanted: list[str]) -> int:
    chosen = [case for case in cases() if not wanted or any(word in case.path for word in wanted)]
    with ThreadPoolExecutor(AT_ONCE) as several:
        for case, text in zip(chosen, several.map(_make, chosen), strict=True):
            path = FIXTURES / case.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or not _is_the_same(text, path.read_text()):
                path.write_text(text)
            print(path.relative_to(FIXTURES.parent))
    print(f"{len(chosen)} fixtures")
    return 0


def _is_the_same(text: str, other: str) -> bool:
    """Whether the same is said, if in another order, as host and app do not wait for each other: of
    what must come first, the replay is the judge.
    """
    return sorted(text.splitlines()) == sorted(other.splitlines())


def _make(case: Case) -> str:
    try:
        return make(case)
    except Exception:
        print(f"{case.path} cannot be made", file=sys.stderr)
        raise


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
