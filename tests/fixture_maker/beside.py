"""Who answers beside the host: a person at a terminal, or a program of theirs at the questions API.

They do it on a thread of their own, and take down what they saw and did.
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.peer import PATIENCE
from support.programs import Desktop

from abp_bridge.conformance.format import BRIDGE, PERSON, Entry
from abp_bridge.conformance.redactor import path_replacer
from abp_bridge.conformance.user_drivers import QuestionsClient, Terminal, fill_in, free_port
from abp_bridge.core.json_value import map_texts
from abp_bridge.core.matrix import QuestionShape

from .cases import ASKED, Case

Json = Any

GLANCE = 0.05  # seconds between two looks whether all is over


class Nobody:
    """Who is there beside the host.

    `before` is what they do before anything is asked, `groups` what each question has them do.
    """

    def __init__(self, case: Case, folder: str) -> None:
        self.before: list[Entry] = []
        self.groups: list[list[Entry]] = []
        self.env: dict[str, str] = {}
        self._case = case
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.answer, daemon=True)

    def placed(self, word: str) -> str:
        """An argument of the bridge's, with where they are."""
        return word.replace("{folder}", self._folder)

    def begin(self) -> None:
        self._thread.start()

    def answer(self) -> None:
        """Answer what is asked, until it ends."""

    def close(self) -> None:
        """The bridge has ended, so there will be no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def merged(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """A trace, with what they saw and did before the app had its answers."""
        groups, before = list(self.groups), list(self.before)
        for entry in entries:
            value = entry.value if entry.kind == "message" else {}
            if entry.sender == "host" and value.get("params", {}).get("name") == "abp_call":
                yield from before
                before.clear()
            if groups and entry.to == "app" and str(value.get("id")).startswith("q"):
                yield from groups.pop(0)
            yield entry


class AtTerminal(Nobody):
    """A person who reads and types."""

    def __init__(self, case: Case, folder: str) -> None:
        super().__init__(case, folder)
        self._terminal = Terminal()

    def placed(self, word: str) -> str:
        return super().placed(word).replace("{tty}", self._terminal.name)

    def answer(self) -> None:
        for asked in self._case.asked:
            made: list[Entry] = []
            for keys in asked.keys:
                if not self._read_to_prompt():
                    return
                self._take(made)
                self._terminal.type_keys(keys.replace("{folder}", self._folder) + "\n", PATIENCE)
                secret = asked is ASKED[QuestionShape.SECRET]
                typed = "[secret]" if secret else keys.replace("{folder}", "[folder]")
                made.append(Entry("keys", f"{typed}\n", PERSON, BRIDGE))
            self.groups.append(made)

    def close(self) -> None:
        super().close()
        self._terminal.update()
        if self.groups and self._terminal.lines:  # what is shown last comes with no prompt
            self._take(self.groups[-1])
        self._terminal.hang_up()

    def _read_to_prompt(self) -> bool:
        """Whether one came before all was over."""
        while not self._terminal.is_at_prompt:
            if self._over.is_set():
                return False
            if select.select([self._terminal.fd], [], [], GLANCE)[0]:
                self._terminal.update()
        return True

    def _take(self, made: list[Entry]) -> None:
        lines = [line.replace(self._folder, "[folder]") for line in self._terminal.lines]
        made.append(Entry("screen", lines, BRIDGE, PERSON))
        self._terminal.clear()


class AtProgram(Nobody):
    """A program at the questions API, that follows its events."""

    def __init__(self, case: Case, folder: str) -> None:
        super().__init__(case, folder)
        self._client = QuestionsClient(free_port(), case.env["ABP_QUESTIONS_PASSWORD"])
        self._names: dict[str, str] = {}
        self._ready = threading.Event()

    def placed(self, word: str) -> str:
        return super().placed(word).replace("{port}", str(self._client.port))

    def begin(self) -> None:
        super().begin()
        assert self._ready.wait(PATIENCE)

    def answer(self) -> None:
        stream: Iterator[tuple[Json, int]] = self._client.exchange("GET /event", None, PATIENCE)
        with suppress(OSError):  # the bridge has ended
            self.before += [_request({"http": "GET /event"}), self._event(next(stream))]
            self._ready.set()
            for asked in self._case.asked:
                made: list[Entry] = []
                for labels, event in zip(asked.rounds, stream, strict=False):
                    made += [self._event(event), *self._reply(labels), self._event(next(stream))]
                self.groups.append(made)

    def _event(self, event: tuple[Json, int]) -> Entry:
        self._said = event[0]["properties"]
        properties = map_texts(self._named(self._said), path_replacer({self._folder: "[folder]"}))
        shown = {**event[0], "id": "[any]", "properties": properties}
        return Entry("message", shown, BRIDGE, PERSON)

    def _named(self, said: Json) -> Json:
        """With names for what is called anew each time."""
        words = {"id": "question", "requestID": "question", "sessionID": "session"}
        made = dict(said)
        for name in words.keys() & made.keys():
            count = sum(each.startswith(f"[{words[name]}") for each in self._names.values())
            made[name] = self._names.setdefault(made[name], f"[{words[name]} {count + 1}]")
        return made

    def _reply(self, labels: Json) -> list[Entry]:
        body, id = {"answers": labels}, self._said["id"]
        path = "POST /question/{}/reply"
        ((said, _),) = self._client.exchange(path.format(id), json.dumps(body), PATIENCE)
        request = _request({"http": path.format(self._names[id]), "body": body})
        return [request, Entry("message", said, BRIDGE, PERSON)]

    def close(self) -> None:
        self._client.stop_connecting()
        super().close()


def _request(request: Json) -> Entry:
    return Entry("http", request, PERSON, BRIDGE)


class AtBrowser(Nobody):
    """A person whose browser opens; the bridge itself takes down what they do."""

    def __init__(self, case: Case, folder: str) -> None:
        super().__init__(case, folder)
        self._desktop = Desktop(Path(folder))
        self.env = self._desktop.env

    def answer(self) -> None:
        for asked in self._case.asked:
            fill_in(self._desktop.address(), asked.page, asked.press)


BESIDE: dict[str, type[Nobody]] = {
    "": Nobody,
    "terminal": AtTerminal,
    "program": AtProgram,
    "browser": AtBrowser,
}
