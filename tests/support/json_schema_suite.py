"""JSON Schema's official test suite, as the source distribution of `jsonschema` has it.

The wheel that is installed does not, so the source of the same version is downloaded once.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

Json = Any

DRAFT = "json/tests/draft2020-12/"


class Group(NamedTuple):
    """One schema of a file, and the values that fit it or do not."""

    file: str
    name: str
    schema: Json
    cases: list[tuple[str, Json, bool]]


@functools.cache
def groups() -> list[Group]:
    """The whole suite for draft 2020-12, the optional parts too; a file by its name there."""
    with tarfile.open(_source()) as archive:
        found = {
            member.name.partition(DRAFT)[2]: json.load(archive.extractfile(member) or sys.stdin)
            for member in archive
            if DRAFT in member.name and member.name.endswith(".json")
        }
    return [
        Group(
            name.removesuffix(".json"),
            each["description"],
            each["schema"],
            [(case["description"], case["data"], case["valid"]) for case in each["tests"]],
        )
        for name, listed in sorted(found.items())
        for each in listed
        if "output" not in name
    ]


def _source() -> Path:
    """The archive, kept beside the packages of this environment."""
    wanted = f"jsonschema-{version('jsonschema')}"
    kept = Path(sys.prefix) / "sources" / f"{wanted}.tar.gz"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            options = ["--no-deps", "--no-binary", "jsonschema", "--dest", folder]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", *options, wanted.replace("-", "==")],
                check=True,
                capture_output=True,
            )
            (Path(folder) / kept.name).replace(kept)
    return kept
