"""mcp-proxy twice, as its users put it between a host and a server on stdio: stdio, HTTP, stdio.

Takes the command of mcp-proxy. The half behind listens on a port that was free a moment ago.
"""

import socket
import subprocess
import sys
import time
from pathlib import Path

START = 20.0  # seconds for the half behind to listen


def main(command: str) -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = str(Path(__file__).with_name("echo_server.py"))
    behind = subprocess.Popen(
        [command, "--port", str(port), "--", sys.executable, server],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        return subprocess.call([command, f"http://127.0.0.1:{port}/sse"])
    finally:
        behind.kill()
        behind.wait()


def _wait_for(port: int) -> None:
    limit = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.01)
        else:
            return


sys.exit(main(sys.argv[1]))
