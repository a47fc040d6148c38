"""One session: an app, a host, a ledger. Knows both sides by their interfaces only.

`session` is what a host asks of the bridge, `connection` one app, `call` one call of a capability,
`elicitor` one question's way to the person.
"""

from abp_bridge.bridge.session import Bridge

__all__ = ["Bridge"]
