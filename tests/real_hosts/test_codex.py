"""`codex exec`: what its model reads of a result."""

from __future__ import annotations

import sys

from support.paths import APPS

from .hosts import calling, codex_exec
from .stage import Stage


def test_exec_reads_the_note_beside_a_structured_result(stage: Stage) -> None:
    """Codex does not show its model the texts of such a result."""
    server = APPS / "mcp_server.py"
    stage.stand_before([sys.executable, server, stage.folder / "read", stage.folder / "deeds"])
    codex_exec(stage, calling("report"), ABP_WITHOUT_PERSON="true", ABP_PAGE="off")
    read = " ".join(stage.model.requests[-1].heard)
    assert "nobody answered" in read
    assert '"result":"cancel"' in read.replace(" ", "").replace("\\", "")
