"""The questions API as a program in its place meets it: questions listed and told of, answered in
labels, refused in words; and who is let in.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from support.harness import PATIENCE, Hosted, hosted, text

Json = Any

PASSWORD = "planted-password-51c2"
BEARER = {"Authorization": f"Bearer {PASSWORD}"}
SECRET: dict[str, Json] = {
    "prompt": "Enter your API key",
    "schema": {"type": "string", "title": "API key"},
}


class Program:
    """A client of the API at `port`."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        headers: Mapping[str, str] = BEARER,
    ) -> tuple[int, Json]:
        """One request: its status and the JSON that came back."""

        def send() -> tuple[int, Json]:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
                connection.request(
                    method, path, data, {"Content-Type": "application/json", **headers}
                )
                response = connection.getresponse()
                return response.status, json.loads(response.read() or b"null")
            finally:
                connection.close()

        return await anyio.to_thread.run_sync(send)

    async def listed(self, count: int = 1) -> list[Json]:
        """What is open, once it is that many."""
        with anyio.fail_after(PATIENCE):
            while len(found := (await self.send("GET", "/question"))[1]) != count:
                await anyio.lowlevel.checkpoint()
        return list(found)

    async def reply(self, id: str, *answers: list[str]) -> tuple[int, Json]:
        return await self.send("POST", f"/question/{id}/reply", {"answers": list(answers)})

    @asynccontextmanager
    async def events(self) -> AsyncIterator[Callable[[str], Any]]:
        """Follow `/event`: a way to wait for the next event of a type."""
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            await stream.send(
                f"GET /event HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer"
                f" {PASSWORD}\r\n\r\n".encode()
            )
            seen = b""

            async def next_of(kind: str) -> Json:
                nonlocal seen
                with anyio.fail_after(PATIENCE):
                    while True:
                        for line in re.findall(rb"data: (.*)\n\n", seen):
                            seen = seen.partition(line)[2]
                            event = json.loads(line)
                            if event["type"] == kind:
                                return event["properties"]
                        seen += await stream.receive()

            await next_of("server.connected")
            yield next_of


@asynccontextmanager
async def served(
    *arguments: str, floor: int = 0, **more: Any
) -> AsyncIterator[tuple[Hosted, Program]]:
    """A bridge that asks on the questions API alone, with the demo app connected, and a client of
    the API.
    """
    environment = {"ABP_QUESTIONS_PASSWORD": PASSWORD, "ABP_PERSON_FLOOR": str(floor)}
    options = ["--questions-api", "0", "--ask-on", "questions-api", *arguments]
    async with hosted("--app", "demo", *options, env=environment, **more) as host:
        await host.client.call_tool("abp_connect", {})
        yield host, Program(int((await place(host)).rpartition(":")[2]))


async def place(host: Hosted) -> str:
    (found,) = (
        each["at"]
        for each in (await host.status())["surfaces"]
        if each["provider"] == "questions-api"
    )
    return str(found)


@asynccontextmanager
async def asking(host: Hosted, method: str, **params: Json) -> AsyncIterator[list[Json]]:
    """The app asks meanwhile; the response is in the list afterwards."""
    responses: list[Json] = []

    async def ask() -> None:
        responses.append(await host.ask(method, **params))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        yield responses


@pytest.mark.slow
async def test_what_does_not_fit_is_refused_in_words_and_the_question_stays() -> None:
    async with (
        served() as (host, program),
        asking(
            host, "elicitation/input", prompt="Seats?", schema={"type": "integer", "minimum": 1}
        ) as responses,
    ):
        (request,) = await program.listed()
        for body, words in (
            ({"answers": [["many"]]}, "whole number"),
            ({"answers": [["0"]]}, "1"),
            ({"answers": [["1", "2"]]}, "exactly one answer"),
            ({"answers": []}, "1 lists"),
            ({"answers": "x"}, "the body must be"),
            (b"{", "no JSON"),
        ):
            status, problem = await program.send("POST", f"/question/{request['id']}/reply", body)
            assert (status, problem["_tag"]) == (400, "InvalidRequestError")
            assert words in problem["message"]
        assert await program.listed() == [request]
        assert await program.reply(request["id"], ["4"]) == (200, True)
        status, problem = await program.reply(request["id"], ["5"])
        assert (status, problem["_tag"], problem["requestID"]) == (
            404,
            "QuestionNotFoundError",
            request["id"],
        )
    assert responses[0]["data"] == {"value": 4}


@pytest.mark.slow
async def test_secrets_and_files_are_never_asked_there() -> None:
    async with served() as (host, program), program.events() as heard:
        for method, params in (
            ("elicitation/input", SECRET),
            ("elicitation/resource", {"prompt": "A picture", "type": "image/png"}),
        ):
            response = await host.ask(method, **params)
            assert response["error"]["code"] == "NOT_SUPPORTED"
            assert "questions-api: the questions API" in response["error"]["message"]
        async with asking(host, "elicitation/confirm", message="First?"):
            asked = await heard("question.asked")
            assert "First?" in asked["questions"][0]["question"], "nothing was told of the others"
            await program.reply(asked["id"], ["Yes"])


@pytest.mark.slow
async def test_directory_and_workspace_may_be_named() -> None:
    async with served() as (_, program):
        assert await program.send("GET", "/question?directory=%2Ftmp&workspace=w") == (200, [])


def basic(words: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(words.encode()).decode()}"}


@pytest.mark.slow
async def test_only_who_has_the_password_and_is_no_web_page_gets_in() -> None:
    async with served() as (_, program):
        here = f"127.0.0.1:{program.port}"
        knocks: list[tuple[str, Mapping[str, str], int]] = [
            ("any user with the password", basic(f"opencode:{PASSWORD}"), 200),
            ("a bearer", BEARER, 200),
            ("by its other name", {**BEARER, "Host": f"localhost:{program.port}"}, 200),
            ("its own pages", {**BEARER, "Origin": f"http://{here}"}, 200),
            ("nobody", {}, 401),
            ("a wrong password", basic("opencode:x"), 401),
            ("a password as a name", basic(PASSWORD), 401),
            ("no base64", {"Authorization": "Basic !"}, 401),
            ("another scheme", {"Authorization": f"Digest {PASSWORD}"}, 401),
            ("another host's name", {**BEARER, "Host": "evil.example"}, 421),
            ("another port's name", {**BEARER, "Host": "127.0.0.1:1"}, 421),
            ("another origin", {**BEARER, "Origin": "https://evil.example"}, 403),
            ("no origin to speak of", {**BEARER, "Origin": "null"}, 403),
            (
                "a script of another site",
                {**BEARER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
                403,
            ),
        ]
        seen = {
            name: (await program.send("GET", "/question", headers=headers))[0]
            for name, headers, _ in knocks
        }
        assert seen == {name: status for name, _, status in knocks}
        assert (await program.send("GET", "/question", headers={}))[1]["message"].startswith(
            "Give the password"
        )
        elsewhere = {
            path: (await program.send(method, path, headers={}))[0]
            for method, path in (("GET", "/"), ("POST", "/x"), ("DELETE", "/question"))
        }
        assert elsewhere == {"/": 401, "/x": 401, "/question": 401}
        assert (await program.send("GET", "/"))[0] == 404
        assert (await program.send("POST", "/question/que_none/reply", {"answers": []}))[0] == 404
        assert (await program.send("POST", "/question/que_none/reply", b"x" * 2_000_000))[0] == 413


@pytest.mark.network
async def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["--app", "demo", "--questions-api", str(port), "--ask-on", "questions-api"]
        async with hosted(*arguments, env={"ABP_QUESTIONS_PASSWORD": PASSWORD}) as host:
            response = await host.ask("elicitation/confirm", message="Go?")
            assert (await place(host)).startswith("not there: ")
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert f"port {port} cannot be used" in response["error"]["message"]
    assert "give another port to --questions-api" in response["error"]["message"]


@pytest.mark.slow
async def test_what_was_typed_is_read_once() -> None:
    """JSON text that is a text in JSON must not be read a second time."""
    schema = {"anyOf": [{"type": "string"}, {"type": "array"}, {"type": "number"}]}
    async with served() as (host, program):
        async with asking(host, "elicitation/input", prompt="Any JSON", schema=schema) as responses:
            (request,) = await program.listed()
            assert (await program.reply(request["id"], ['"5"']))[0] == 200
        assert responses[0]["data"] == {"value": "5"}


@pytest.mark.process
async def test_no_app_is_given_the_password(tmp_path: Path) -> None:
    seen = tmp_path / "environment"
    shell = f"env > {shlex.quote(str(seen))}; exec {sys.executable} -m abp_bridge.apps.demo"
    environment = {"ABP_QUESTIONS_PASSWORD": PASSWORD, "ABP_ASK_ON": "questions-api"}
    app = f"stdio:{shlex.join(['sh', '-c', shell])}"
    async with hosted("--app", app, "--questions-api", "0", env=environment) as host:
        await host.client.call_tool("abp_connect", {})
    given = seen.read_text()
    assert "PATH=" in given
    assert "ABP_QUESTIONS_PASSWORD" not in given
    assert PASSWORD not in given


@pytest.mark.slow
async def test_a_person_is_not_kept_waiting_for_a_program_that_is_not_there() -> None:
    """With the page set up too, what is left when nobody has come to the API is at once tried."""
    options = ["--questions-api", "0", "--page"]
    async with hosted("--app", "demo", *options, env={"ABP_QUESTIONS_PASSWORD": PASSWORD}) as host:
        told = text(
            await host.call(
                "demo.ask", request={"method": "elicitation/input", "params": {"prompt": "Name?"}}
            )
        )
        assert "no program has come to the questions API lately; page:" in told
        program = Program(int((await place(host)).rpartition(":")[2]))
        await program.send("GET", "/question")
        async with asking(host, "elicitation/input", prompt="Name?") as responses:
            (request,) = await program.listed()
            await program.reply(request["id"], ["Ada"])
        assert responses[0]["metadata"]["route"] == "questions-api"


DELETE: dict[str, Json] = {"message": "Delete all?", "destructive": True}


@pytest.mark.slow
async def test_a_policy_that_comes_late_is_no_person() -> None:
    """It answers what it reads at once; that nobody had read the question before is no reader's
    time.
    """
    async with served(floor=1_000) as (host, program):  # milliseconds
        await program.listed(0)  # else nobody is asked here
        async with asking(host, "elicitation/confirm", **DELETE) as responses:
            began = anyio.current_time()
            while anyio.current_time() < began + 1.1:  # longer than the floor
                await host.status()
            (request,) = await program.listed()
            yes = request["questions"][0]["options"][-1]["label"]
            assert (await program.reply(request["id"], [yes]))[0] == 200
    (response,) = responses
    assert not response["success"]
    assert "no person was asked" in response["error"]["message"]


@pytest.mark.parametrize("listens", [False, True], ids=["lists it", "hears of it"])
@pytest.mark.slow
async def test_a_person_reads_from_when_their_program_has_the_question(listens: bool) -> None:
    async with served(floor=100) as (host, program):  # milliseconds
        events = program.events() if listens else nullcontext()
        async with events as heard, asking(host, "elicitation/confirm", **DELETE) as responses:
            request = await heard("question.asked") if heard else (await program.listed())[0]
            began = anyio.current_time()
            while anyio.current_time() < began + 0.2:  # longer than the floor
                await host.status()
            yes = request["questions"][0]["options"][-1]["label"]
            await program.reply(request["id"], [yes])
    (response,) = responses
    assert response["metadata"]["answeredBy"] == "person"
    assert response["data"]["confirmed"]
