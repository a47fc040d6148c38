"""The entries that registries and hosts read of a package, as plain data: for the MCP registry, the
ACP registry, and the manifest of an MCPB bundle. They name an address or an owner only where
whoever publishes has given one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from abp_bridge import VERSION
from abp_bridge.mcp.tool_list import OWN_TOOLS
from abp_bridge.settings import TABLE

Entry = dict[str, Any]
SCHEMAS = Path(__file__).parent / "schemas"
COMMAND = "abp-bridge"
TITLE = "abp-bridge"
LICENSE = "BSD-3-Clause"
ABOUT = "Brings what web apps ask while an agent uses them to the person, and the answers back"
APP = "A web page, or a program, that speaks ABP (the Agentic Browser Protocol); 'demo' to try it"
# Which of the settings a registry's reader is offered: those by which somebody can be asked.
OFFERED = ("page", "page_port", "notify", "chrome")


@dataclass(frozen=True, slots=True)
class Identity:
    """What it is called where it is published.

    Attributes:
        package: Its name on PyPI.
        server: Its reverse-DNS name in the MCP registry; empty where it has none.
        repository: The address of its source; empty where there is none.
        author: Who publishes it.
    """

    package: str = "abp-bridge"
    server: str = ""
    repository: str = ""
    author: str = "the abp-bridge authors"

    @property
    def marker(self) -> str:
        """What the README on PyPI has, by which the MCP registry knows the owner."""
        return f"<!-- mcp-name: {self.server} -->" if self.server else ""


def mcp_registry(identity: Identity) -> Entry:
    """`server.json`, for the MCP registry."""
    package: Entry = {
        "registryType": "pypi",
        "identifier": identity.package,
        "version": VERSION,
        "runtimeHint": "uvx",
        # The identifier of PyPI's has no extras.
        "runtimeArguments": [
            {"type": "named", "name": "--with", "value": f"{identity.package}[browser]=={VERSION}"}
        ],
        "packageArguments": [
            {"type": "positional", "value": "serve"},
            {
                "type": "named",
                "name": "--app",
                "description": APP,
                "isRequired": True,
                "placeholder": "https://your.app",
            },
        ],
        "environmentVariables": [_variable(name) for name in OFFERED],
        "transport": {"type": "stdio"},
    }
    source = {"repository": _repository(identity)} if identity.repository else {}
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": identity.server,
        "title": TITLE,
        "description": ABOUT,
        "version": VERSION,
        **source,
        "packages": [package],
    }


def _variable(name: str) -> Entry:
    row = TABLE[name]
    choices = {"choices": list(row.choices)} if row.choices else {}
    return {"name": row.variable, "description": row.help, **choices}


def _repository(identity: Identity) -> Entry:
    host = urlsplit(identity.repository).hostname or ""
    return {"url": identity.repository, "source": host.rpartition(".")[0].rpartition(".")[2]}


def acp_registry(identity: Identity) -> Entry:
    """`agent.json`, for the ACP registry: the apps are named later, by `/connect`."""
    source = {"repository": identity.repository} if identity.repository else {}
    return {
        "id": identity.package,
        "name": TITLE,
        "version": VERSION,
        "description": ABOUT,
        **source,
        "authors": [identity.author],
        "license": LICENSE,
        "distribution": {
            "uvx": {"package": f"{identity.package}[browser]=={VERSION}", "args": ["serve"]}
        },
    }


def bundle_manifest(identity: Identity) -> Entry:
    """The manifest of the MCPB bundle. Its host brings uv, and uv what the wheel in it needs."""
    source = {"type": "git", "url": identity.repository}
    run = ["run", "--project", "${__dirname}", "${__dirname}/server/main.py"]
    return {
        "manifest_version": "0.4",
        "name": identity.package,
        "display_name": TITLE,
        "version": VERSION,
        "description": ABOUT,
        "author": {"name": identity.author},
        **({"repository": source} if identity.repository else {}),
        "license": LICENSE,
        "server": {
            "type": "uv",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "uv",
                "args": [*run, "serve", "--app", "${user_config.app}", "--page", "open"],
            },
        },
        "tools": [{"name": each["name"], "description": each["description"]} for each in OWN_TOOLS],
        "tools_generated": True,
        "user_config": {
            "app": {"type": "string", "title": "App", "description": APP, "required": True}
        },
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": ">=3.11"}},
    }


def check(entry: Entry, kind: str) -> Entry:
    """`entry`, which is as its readers want it.

    Args:
        entry: What one of these functions has made.
        kind: The name of its schema.

    Raises:
        jsonschema.ValidationError: It is not.
    """
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(entry)
    return entry
