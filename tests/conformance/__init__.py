"""The official MCP conformance suite against the bridge on its pipes (`make conformance`).

`app.json` is an app with the tools that the suite wants. Known failures are in `expected.yml`, and
those with `abp-bridge mcp` in between in `proxied.yml`.
"""
