"""The official MCP conformance suite against the real stdio bridge: `make conformance`.

The suite speaks HTTP and wants fixture tools by name. `app` is an ABP app that offers them, `names`
says what they are called on either side; the HTTP face of a bridge process is in `test_suite`. What
is known to fail is in `expected.yml`, each with its reason; what differs where `abp-bridge mcp`
stands between, in `proxied.yml`. `make test` leaves this folder out: the suite comes from npm, and
needs Node 22.
"""
