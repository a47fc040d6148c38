"""What `make packages` builds, and the wheel in an environment of its own with an empty home."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from jsonschema import ValidationError  # type: ignore[import-untyped]
from publishing.build import build_all
from publishing.entries import Identity, acp_registry, bundle_manifest, check, mcp_registry
from support.paths import ROOT

import abp_bridge
from abp_bridge.cli.main import make_parser

pytestmark = pytest.mark.process
INSTALL_LIMIT = 240.0  # seconds: packages may have to come from an index
LIMIT = 60.0  # seconds, for a command
PRODUCT = ROOT / "abp_bridge"
IDENTITY = Identity(
    package="abp-bridge-elsewhere",
    server="com.example/abp-bridge",
    repository="https://git.example.org/ada/abp-bridge",
    author="Ada Example",
)
PLAYED = (
    "mcp-form/2025-11-25/select-many",
    "acp-permission/confirm",
    "page/fields-and-files",
    "terminal/chosen",
)


def once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first process of a test run makes, for all of them."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)  # what another could not finish
            folder.mkdir()
            make(folder)
            (folder / "done").touch()
    return folder


def call(*command: str | Path, cwd: Path, limit: float = INSTALL_LIMIT) -> None:
    ended = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=limit, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that is published, under a name that is nobody's."""

    def build(folder: Path) -> None:
        build_all(Path(os.path.relpath(folder)), IDENTITY)

    return once(tmp_path_factory, "built", build)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Path:
    """The programs of an environment that has the wheel and what it depends on, and no more."""

    def install(folder: Path) -> None:
        (wheel,) = built.glob("*.whl")
        python = folder / "bin" / "python"
        call(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-compile")
        call(*pip, "--quiet", wheel, cwd=folder)

    return once(tmp_path_factory, "installed", install) / "bin"


class Stranger:
    """Somebody who has installed it, in a folder and with a home where nothing is."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()

    def run(self, program: str, *arguments: str) -> str:
        """What it prints; it ends well, and complains of nothing."""
        ended = self.start(program, *arguments)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
        return ended.stdout

    def start(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, however that is."""
        return subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env={"HOME": str(self.home), "PATH": f"{self.programs}:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )


@pytest.fixture
def stranger(installed: Path, tmp_path: Path) -> Stranger:
    return Stranger(installed, tmp_path)


def product_files() -> set[str]:
    """What is in the package here, without what Python has compiled."""
    found = (each for each in PRODUCT.rglob("*") if each.is_file())
    return {str(each.relative_to(ROOT)) for each in found if each.suffix != ".pyc"}


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    """The MCPB bundle, as a host has unpacked it."""
    (packed,) = built.glob("*.mcpb")
    folder = tmp_path / "bundle"
    shutil.unpack_archive(packed, folder, "zip")
    return folder


def understood(arguments: list[str]) -> argparse.Namespace:
    """What our command line makes of them; it ends the process where it makes nothing of them."""
    return make_parser().parse_args(arguments)


def test_wheel_has_every_file_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert {each for each in names if ".dist-info/" not in each} == product_files()
    assert any(each.endswith(".dist-info/licenses/LICENSE") for each in names)


def test_source_archive_has_tests_fixtures_and_docs(built: Path) -> None:
    """It has tests, fixtures and docs, and what was made on the way has not got into it."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = {each.partition("/")[2] for each in opened.getnames()}
    assert product_files() <= names
    for needed in ("Makefile", "tests/conftest.py", "fixtures/acp/error.jsonl", "docs/asking.md"):
        assert needed in names
    assert not [each for each in names if each.startswith((".venv", "dist")) or "pyc" in each]


def test_wheel_has_a_command_of_each_name(stranger: Stranger) -> None:
    version = f"abp-bridge {abp_bridge.VERSION}\n"
    assert stranger.run("python", "-m", "abp_bridge", "--version") == version
    assert stranger.run("abp-bridge", "--version") == version
    assert stranger.run("abp-bridge-elsewhere", "--version") == version
    where = stranger.run("python", "-c", "import abp_bridge; print(abp_bridge.__file__)")
    assert Path(where.strip()).is_relative_to(stranger.programs.parent)


def test_wheel_runs_the_demo(stranger: Stranger) -> None:
    assert "15 questions: 12 accepted" in stranger.run("abp-bridge", "demo")


def test_wheel_plays_fixtures(stranger: Stranger) -> None:
    files = [str(ROOT / "fixtures" / f"{name}.jsonl") for name in PLAYED]
    assert f"{len(files)} passed, 0 failed" in stranger.run("abp-bridge", "replay", *files)


def test_wheel_names_a_missing_extra_with_a_command(stranger: Stranger) -> None:
    ended = stranger.start("abp-bridge", "try", "demo:page")
    command = f"uv pip install --python {stranger.programs}/python"
    assert ended.returncode == 1
    assert f"needs Playwright: {command}" in ended.stderr
    assert "playwright" in ended.stderr.partition(command)[2]


def test_readme_of_the_wheel_names_its_owner(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith("/METADATA"))
        metadata = opened.read(name).decode()
    assert metadata.endswith("\n<!-- mcp-name: com.example/abp-bridge -->\n")
    assert "Name: abp-bridge-elsewhere\n" in metadata
    assert "Project-URL: Source, https://git.example.org/ada/abp-bridge\n" in metadata
    assert "mcp-name" not in (ROOT / "README.md").read_text()


def test_mcp_registry_entry_starts_a_server(built: Path) -> None:
    entry = json.loads((built / "server.json").read_text())
    assert entry["name"] == IDENTITY.server
    assert entry["repository"] == {"url": IDENTITY.repository, "source": "example"}
    (package,) = entry["packages"]
    assert (package["identifier"], package["version"]) == (IDENTITY.package, abp_bridge.VERSION)
    words: list[str] = []
    for argument in package["packageArguments"]:
        named = [argument["name"]] if argument["type"] == "named" else []
        words += [*named, argument.get("value", "demo")]
    assert words[0] == "serve"
    assert understood(words).apps == ["demo"]
    assert "ABP_PAGE" in {each["name"] for each in package["environmentVariables"]}


def test_acp_registry_entry_starts_an_agent(built: Path) -> None:
    folder = built / "acp-registry" / IDENTITY.package
    entry = json.loads((folder / "agent.json").read_text())
    assert (entry["id"], entry["authors"]) == (IDENTITY.package, ["Ada Example"])
    run = entry["distribution"]["uvx"]
    assert run["package"] == f"{IDENTITY.package}[browser]=={abp_bridge.VERSION}"
    assert understood(run["args"])
    icon = ElementTree.parse(folder / "icon.svg").getroot()
    assert icon.attrib["viewBox"] == "0 0 16 16"
    assert [each.attrib["fill"] for each in icon] == ["currentColor"]


def test_bundle_has_the_wheel_and_starts_it(bundle: Path, stranger: Stranger) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    server = manifest["server"]
    project = tomllib.loads((bundle / "pyproject.toml").read_text())
    (source,) = project["tool"]["uv"]["sources"].values()
    assert zipfile.is_zipfile(bundle / source["path"])
    assert project["project"]["dependencies"] == [f"{IDENTITY.package}[browser]"]
    said = stranger.run("python", str(bundle / server["entry_point"]), "--version")
    assert said == f"abp-bridge {abp_bridge.VERSION}\n"
    arguments = server["mcp_config"]["args"]
    assert understood(arguments[arguments.index("serve") :]).apps == ["${user_config.app}"]
    assert list(manifest["user_config"]) == ["app"]


def test_entries_without_a_name_claim_nothing(tmp_path: Path) -> None:
    entries = [make(Identity()) for make in (acp_registry, bundle_manifest)]
    assert "http" not in json.dumps([each | {"tools": ""} for each in entries])
    with pytest.raises(ValidationError):
        check(mcp_registry(Identity()), "server")
