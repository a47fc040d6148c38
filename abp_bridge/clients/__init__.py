"""The official SDKs' clients, for who is a client of somebody else's server: their traps are worked
round here, once, each with its reason.
"""
