"""An MCP host that cannot ask anybody, as most are: it makes a file with three notes, launches the
server that its arguments name, has it delete them, and counts what is left. What the server logs is
in a file beside the notes, as hosts keep it.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

FILE, COMMAND = Path(sys.argv[1]), [*sys.argv[2:], sys.argv[1]]


def count() -> int:
    with closing(sqlite3.connect(FILE)) as notes:
        return int(notes.execute("select count(*) from notes").fetchone()[0])


FILE.unlink(missing_ok=True)
with closing(sqlite3.connect(FILE)) as notes, notes:
    notes.execute("create table notes (words text)")
    notes.executemany("insert into notes values (?)", [("milk",), ("bread",), ("tea",)])
print("notes before:", count())

pipe = subprocess.PIPE
with (
    FILE.with_suffix(".log").open("w") as log,
    subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=log, text=True, bufsize=1) as server,
):
    assert server.stdin is not None
    assert server.stdout is not None

    def request(id: int, method: str, params: dict[str, Any]) -> Any:
        assert server.stdin is not None
        assert server.stdout is not None
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        server.stdin.write(json.dumps(message) + "\n")
        answer = json.loads(server.stdout.readline())
        return answer["result"] if "result" in answer else sys.exit(answer["error"]["message"])

    me = {"clientInfo": {"name": "a-host", "version": "1"}, "capabilities": {}}
    request(1, "initialize", {"protocolVersion": "2025-11-25", **me})
    called = request(2, "tools/call", {"name": "delete_notes", "arguments": {}})
    print("the server:", called["content"][0]["text"])
    server.stdin.close()

print("notes after:", count())
