"""A program of a fixture's person at the questions API: one request, and what comes back of it.

It knows HTTP and the events of a stream; what they say is compared elsewhere.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

from abp_bridge.core.json_value import JsonValue, as_object, parse_json

MAX_MESSAGE = 2**20  # bytes of a response or of an event: no fixture holds more
RESPONSE_TIMEOUT = 5.0  # seconds for the head of a response
EVENT_TIMEOUT = 60.0  # seconds between two lines of a stream; a heartbeat is one
RETRY_INTERVAL = 0.02  # seconds between two tries to reach what is not served yet
_HEARTBEAT = "server.heartbeat"


class QuestionsClient:
    """Asks the questions API of a port of this machine."""

    def __init__(self, port: int, password: str) -> None:
        self.port = port
        self._headers = {"Authorization": f"Bearer {password}", "Content-Type": "application/json"}
        self._is_closed = False

    def close(self) -> None:
        """Try no longer to reach what is not served."""
        self._is_closed = True

    def exchange(
        self, request: str, body: str | None, patience: float
    ) -> Iterator[tuple[JsonValue, int]]:
        """Send one request, and follow what comes back; blocks while it waits.

        Args:
            request: method and path, such as `GET /event`.
            body: JSON, if there is any.
            patience: seconds for the port to be served; with the first app it may be soon.

        Yields:
            Each event of a stream but its heartbeats, or one `{status, body}`, with its bytes.

        Raises:
            OSError, ValueError, HTTPException: it is not served, or not understood.
        """
        method, _, path = request.partition(" ")
        with closing(self._connect(patience)) as connection:
            stream = connection.sock
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            if response.headers.get_content_type() != "text/event-stream":
                data = response.read(MAX_MESSAGE)
                yield {"status": response.status, "body": parse_json(data)}, len(data)
                return
            stream.settimeout(EVENT_TIMEOUT)
            while line := response.readline(MAX_MESSAGE):
                event = parse_json(line[6:]) if line.startswith(b"data: ") else None
                if event is not None and as_object(event).get("type") != _HEARTBEAT:
                    yield event, len(line)

    def _connect(self, patience: float) -> http.client.HTTPConnection:
        deadline = time.monotonic() + patience
        while not self._is_closed and time.monotonic() < deadline:
            connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=RESPONSE_TIMEOUT
            )
            with suppress(ConnectionRefusedError):
                connection.connect()
                return connection
            time.sleep(RETRY_INTERVAL)
        raise OSError(f"nothing is served at port {self.port}")


def free_port() -> int:
    """A port of this machine that nobody serves now."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
