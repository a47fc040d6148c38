"""`python -m publishing.build FOLDER`: the source archive, the wheel, the MCPB bundle and the
entries of registries, in FOLDER. Nothing is published, and nothing names what is not
(`make packages`).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from abp_bridge import VERSION
from publishing.entries import (
    COMMAND,
    Entry,
    Identity,
    acp_registry,
    bundle_manifest,
    check,
    mcp_registry,
)

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same sources make the same bundle
BUNDLE_PROJECT = """\
[project]
name = "{package}-bundle"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["{package}[browser]"]

[tool.uv]
package = false

[tool.uv.sources]
{package} = {{ path = "{wheel}" }}
"""


def build_all(out: Path, identity: Identity) -> None:
    """Build everything into `out`, which is made if it is not there."""
    out = out.resolve()  # hatchling runs in the folder of the sources
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        source = prepare_source(Path(folder), identity)
        _hatch(source, out, "sdist", "wheel")
    (wheel,) = out.glob(f"*-{VERSION}-py3-none-any.whl")
    build_bundle(out / f"{identity.package}-{VERSION}.mcpb", wheel, identity)
    entry = out / "acp-registry" / identity.package
    entry.mkdir(parents=True, exist_ok=True)
    _write(entry / "agent.json", check(acp_registry(identity), "agent"))
    shutil.copyfile(HERE / "icon.svg", entry / "icon.svg")
    if identity.server:
        _write(out / "server.json", check(mcp_registry(identity), "server"))


def prepare_source(folder: Path, identity: Identity) -> Path:
    """The sources as they are published, below `folder`: this repository, and its identity."""
    _hatch(ROOT, folder, "sdist")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # there since 3.11.4
        packed.extractall(folder)  # our own, of a moment ago
    source = folder / archive.name.removesuffix(".tar.gz")
    if identity.marker:
        with (source / "README.md").open("a", encoding="utf-8") as readme:
            readme.write(f"\n{identity.marker}\n")
    _rename(source, identity)
    return source


def _rename(source: Path, identity: Identity) -> None:
    project, errors = source / "pyproject.toml", source / "abp_bridge" / "errors.py"
    text = project.read_text(encoding="utf-8")
    if identity.repository:
        urls = f'[project.urls]\nSource = "{identity.repository}"\n\n'
        text = text.replace("[project.scripts]\n", f"{urls}[project.scripts]\n", 1)
    if identity.package != COMMAND:
        script = f'[project.scripts]\n{identity.package} = "abp_bridge.cli.main:entry"\n'
        text = text.replace("[project.scripts]\n", script, 1)
        text = text.replace(f'name = "{COMMAND}"', f'name = "{identity.package}"', 1)
        named = f'PACKAGE = "{identity.package}"'
        errors.write_text(re.sub(r"^PACKAGE = .*$", named, errors.read_text(), flags=re.MULTILINE))
    project.write_text(text, encoding="utf-8")


def build_bundle(path: Path, wheel: Path, identity: Identity) -> None:
    """The MCPB bundle: it has the wheel, and the rest comes when it is first started."""
    manifest = check(bundle_manifest(identity), "manifest")
    project = BUNDLE_PROJECT.format(package=identity.package, version=VERSION, wheel=wheel.name)
    files = {
        "manifest.json": json.dumps(manifest, indent=2).encode(),
        "pyproject.toml": project.encode(),
        "server/main.py": (HERE / "bundle_main.py").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, ZIP_EPOCH)
            info.external_attr = 0o644 << 16
            bundle.writestr(info, content, zipfile.ZIP_DEFLATED)


def _hatch(source: Path, out: Path, *targets: str) -> None:
    wanted = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *wanted, "-d", str(out)]
    ended = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"hatchling: {ended.stderr.strip()}")


def _write(path: Path, entry: Entry) -> None:
    path.write_text(json.dumps(entry, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Build what the arguments say. Returns the exit code."""
    usual = Identity()
    parser = argparse.ArgumentParser(prog="python -m publishing.build", description=__doc__)
    parser.add_argument("out", type=Path, metavar="FOLDER")
    parser.add_argument("--package", default=usual.package, help="the name on PyPI")
    parser.add_argument("--server", default=usual.server, help="the name in the MCP registry")
    parser.add_argument("--repository", default=usual.repository, help="the address of the source")
    parser.add_argument("--author", default=usual.author, help="who publishes it")
    given = vars(parser.parse_args(arguments))
    out = given.pop("out")
    identity = Identity(**given)
    build_all(out, identity)
    for path in sorted(each for each in out.rglob("*") if each.is_file()):
        print(path)
    if not identity.server:
        print("server.json is not there: it needs SERVER_NAME, such as com.example/abp-bridge")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
