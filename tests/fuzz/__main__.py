"""`make fuzz`: run each target under atheris for a minute, or ARGS=SECONDS."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGETS = ("wire", "codecs", "passes")
LIMITS = ("-timeout=5", "-rss_limit_mb=512", "-max_len=8192", "-print_final_stats=1")
SEEDS = 400  # messages of the fixtures to begin with, from all of them
FIGURES = re.compile(r"^(?:Done .*|stat::(?:average_exec|peak_rss).*|.*DONE.*)$", re.MULTILINE)


def sow(folder: Path) -> None:
    """Put what the fixtures' parties say into `folder`, a file each."""
    lines = (line for path in sorted(ROOT.glob("fixtures/**/*.jsonl")) for line in path.open())
    said = [each for line in lines if (each := json.loads(line).get("message")) is not None]
    for number, message in enumerate(said[:: len(said) // SEEDS]):
        (folder / str(number)).write_text(json.dumps(message))


def run(name: str, seconds: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        sow(Path(folder))
        command = [sys.executable, "-m", "fuzz", "--target", name, folder]
        found = f"-artifact_prefix={tempfile.gettempdir()}/abp-bridge-fuzz-"
        command += [*LIMITS, found, f"-max_total_time={seconds}"]
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    print(f"{name}:", *FIGURES.findall(ended.stderr), sep="\n  ", flush=True)
    if ended.returncode:
        print(ended.stderr[-6_000:])
    return ended.returncode


def fuzz(name: str, flags: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["abp_bridge"]):
        targets = import_module("fuzz.targets")
    atheris.Setup([sys.argv[0], *flags], getattr(targets, name))
    atheris.Fuzz()


if sys.argv[1:2] == ["--target"]:
    fuzz(sys.argv[2], sys.argv[3:])
else:
    seconds = next(iter(sys.argv[1:]), "60")
    sys.exit(max(run(name, seconds) for name in TARGETS))
