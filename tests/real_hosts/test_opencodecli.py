"""OpenCode's command line, an MCP host that cannot be asked: what a server asks is on the bridge's
page, which opens by itself.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from real_servers.servers import MongoDB, Person

from .hosts import DROP, calling
from .stage import PATIENCE, Stage

CONFIG = Path(__file__).with_name("opencode.json").read_text()
# what is pressed on the page -> how many databases are dropped, and what the model hears
PRESSED = {
    "yes": ({"action": "yes"}, 1, "Successfully dropped"),
    "no": ({"action": "no"}, 0, "User did not confirm"),
    "decline": ({"action": "decline"}, 0, "User did not confirm"),
}


@pytest.mark.parametrize("pressed", PRESSED)
def test_mongodbs_question_opens_the_page(stage: Stage, mongodb: MongoDB, pressed: str) -> None:
    fields, dropped, said = PRESSED[pressed]
    person = Person(stage.folder)
    stage.stand_before(mongodb.command)
    known = {
        "url": f"{stage.model.url}/v1",
        "command": stage.bridge(),
        "environment": person.environment,
    }
    config = CONFIG
    for name, value in known.items():
        config = config.replace(f'"${name}"', json.dumps(value))
    (stage.home / "opencode.json").write_text(config)
    env = stage.environment(OPENCODE_CONFIG=str(stage.home / "opencode.json"))
    with subprocess.Popen(
        [stage.program, "run"], env=env, cwd=stage.work, stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(calling("drop-database", **DROP))
        process.stdin.close()
        assert "You are about to drop the **shop** database" in person.look()
        person.press(**fields)
        assert process.wait(PATIENCE) == 0
    assert said in stage.model.requests[-1].said[-1][1]
    assert mongodb.commands().count("dropDatabase") == dropped
