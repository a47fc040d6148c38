"""One session: an app, a host, a ledger. The only room that knows both sides.

`session` is what a host asks of the bridge, `connection` one app, `call` one call of a capability,
`asking` one question's way to the person.
"""

from abp_bridge.bridge.session import Bridge

__all__ = ["Bridge"]
