"""The program of the MCPB bundle, whose arguments the bundle's manifest has."""

from abp_bridge.cli.main import entry

entry()
