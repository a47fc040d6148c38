"""Traces as a recorder writes them."""

from pathlib import Path
from typing import Any

from abp_bridge.conformance.recorder import Recorder
from abp_bridge.settings import Settings

Json = Any


def written(tmp_path: Path, *passed: tuple[str, str, Json]) -> str:
    """What a recorder writes of these messages."""
    recorder = Recorder(str(tmp_path / "trace"), Settings(), "serve", environ={})
    for sender, to, message in passed:
        recorder.message(sender, to, message)
    return (tmp_path / "trace").read_text()
