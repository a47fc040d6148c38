"""Supabase's server over HTTP, and the API behind it, which counts the SQL that it runs."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .servers import installed

TOKEN = f"sbp_{'0' * 40}"
PROJECT = "abcdefghijklmnopqrst"


@dataclass
class Supabase:
    """A running server at `url`, and the SQL that it `ran`."""

    url: str
    ran: list[str] = field(default_factory=list)


@contextmanager
def run_supabase() -> Iterator[Supabase]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    server = Supabase(f"http://127.0.0.1:{port}/mcp")

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.ran.append(body["query"])
            self.send_response(201)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, format: str, *args: object) -> None: ...

    api = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    at = f"http://127.0.0.1:{api.server_address[1]}"
    places = ["--api-url", at, "--secret-url-template", f"{at}/{{ref}}/{{name}}"]
    command = [str(installed("supabase")), "--http", "--port", port, *places]
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            assert "listening" in process.stdout.readline()
            try:
                yield server
            finally:
                process.terminate()
    finally:
        api.shutdown()
        thread.join()
        api.server_close()
