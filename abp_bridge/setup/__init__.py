"""The configuration files of hosts: where each keeps its servers, and how ours gets in and out
again without another byte being changed. Knows no session; no other room of the product needs it.
"""
