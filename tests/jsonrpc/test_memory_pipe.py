"""Messages to lines and back."""

from __future__ import annotations

import anyio

from abp_bridge.jsonrpc.memory_pipe import FrameReader, MemoryPipe, send_lines, write_all


async def test_frame_reader_makes_one_line_of_a_message() -> None:
    messages = iter([b'{"a":\n1}\n', b"", None])

    async def receive() -> bytes | None:
        return next(messages)

    reader = FrameReader(receive, lambda: 7.0)
    assert [await reader.receive() for _ in range(3)] == [b'{"a":\r1}\r\n', b"\n", b""]
    assert reader.arrived() == 7.0


async def test_frame_reader_close_ends_a_receive() -> None:
    reader = FrameReader(anyio.sleep_forever)
    async with anyio.create_task_group() as tasks:
        heard: list[bytes] = []

        async def receive() -> None:
            heard.append(await reader.receive())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        reader.close()
    assert heard == [b""]
    assert await reader.receive() == b""


async def test_send_lines_makes_a_message_of_each_line() -> None:
    pipe, sent = MemoryPipe(4), []

    async def send(message: str) -> None:
        sent.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send_lines, pipe, send)
        await write_all(pipe, '{"long":"äöü"}\nb\nrest'.encode())
        pipe.close()
    assert sent == ['{"long":"äöü"}', "b"]
