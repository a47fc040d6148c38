"""FastMCP's own proxy on stdio, in front of echo_server.py on stdio.

`stateful` keeps one session behind for each in front; without it each request has its own.
"""

import sys
from pathlib import Path

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.server.providers.proxy import FastMCPProxy, StatefulProxyClient

behind = StdioTransport(sys.executable, [str(Path(__file__).with_name("echo_server.py"))])
if "stateful" in sys.argv:
    proxy = FastMCPProxy(client_factory=StatefulProxyClient(behind).new_stateful, name="proxy")
else:
    proxy = create_proxy(behind, name="proxy")
proxy.run("stdio", show_banner=False)
