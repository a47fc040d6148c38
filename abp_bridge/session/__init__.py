"""One session: apps, a host, a ledger. It knows both sides by their interfaces only.

`bridge` is what a host calls, `connection` one app, `call` one call of a capability, `elicitor`
the way of one question to the user. `app`, `host`, `surface` and `agent` have the interfaces that
the other rooms implement.
"""
