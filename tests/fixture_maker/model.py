"""The person's model in a conversation that is recorded: a command line, an ACP agent or an API."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from support.agents import add_cli
from support.http_server import Reply, Request, serving
from support.paths import APPS

Json = Any


class Model:
    """One that says always the same.

    Args:
        row: `{"acp": [PROGRAM, ARGUMENT...]}`, or what `cli` or `api` is followed by in the model's
            word, and what it `says`, line by line. Empty for none.
        programs: A folder on the bridge's PATH.
        ends: Ends it.

    Attributes:
        word: What the bridge is given for it.
        stands: What its fixture has for that.
        environment: Where it is found, and a key.
    """

    def __init__(self, row: Json, programs: Path, ends: ExitStack) -> None:
        self.environment: Mapping[str, str] = {}
        self.word = self.stands = ""
        if "acp" in row:
            program, *arguments = row["acp"]
            command = shlex.join([sys.executable, str(APPS / program), *arguments])
            self.word, self.stands = f"acp:{command}", "acp:{app model}"
        elif "cli" in row:
            self.word = self.stands = f"cli:{row['cli']}"
            add_cli(programs, row["cli"], row["says"])
        elif "api" in row:
            self.word = self.stands = row["api"]
            provider = row["api"].partition(":")[0].upper()
            address = ends.enter_context(serving(_streaming(row["says"])))
            self.environment = {f"{provider}_BASE_URL": address, f"{provider}_API_KEY": "made-up-1"}


def _streaming(events: Sequence[Json]) -> Any:
    lines = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)

    def answer(_: Request) -> Reply:
        return Reply(lines.encode(), kind="text/event-stream")

    return answer
