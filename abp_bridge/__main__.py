"""`python -m abp_bridge` is `abp-bridge`."""

from abp_bridge.cli.main import entry

entry()
