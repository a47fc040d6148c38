"""`abp-bridge serve --listen`: a way in for agents that are no program, as a page and over a
WebSocket.
"""
