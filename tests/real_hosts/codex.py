"""Codex, at 2025-06-18: `codex exec`, which declines every question by itself, and `codex
app-server`, on which editors build.

Its forms hold what its terminal really shows, so numbers are asked for as text; the app-server does
not check what the person sends.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from support.visitor import type_on_the_page

from .program import PATIENCE, Program
from .stage import (
    BRIDGE_ENV,
    CANCEL,
    DECLINE,
    Chat,
    Json,
    Stage,
    accept,
    asking,
    calling,
    expect,
    gist,
    recorded,
)

KEY = "planted-key-91c2"
TWELVE = [{"value": f"v{number}", "label": f"Label {number}"} for number in range(1, 13)]

CONFIG = """\
model = "mock"
model_provider = "mock"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.abp]
command = {command}
args = {args}
env = {{ {env} }}
required = {required}
default_tools_approval_mode = "approve"

[analytics]
enabled = false
"""


def environment(
    stage: Stage, bridge_env: Mapping[str, str], *, app: str = "demo", required: bool = True
) -> dict[str, str]:
    """Codex's home is written; its environment is returned."""
    command, *args = stage.bridge(app)
    config = CONFIG.format(
        url=stage.model.url,
        command=json.dumps(command),
        args=json.dumps(args),
        env=", ".join(
            f"{name} = {json.dumps(value)}" for name, value in {**BRIDGE_ENV, **bridge_env}.items()
        ),
        required=json.dumps(required),
    )
    (stage.home / "config.toml").write_text(config)
    return stage.environment(CODEX_HOME=str(stage.home), MOCK_KEY="none")


def run_exec(stage: Stage, script: str, *, required: bool) -> None:
    """`codex exec`, headless, to its end."""
    command = [str(stage.program), "exec", "--json", "--skip-git-repo-check", script]
    with (
        (stage.folder / "exec.jsonl").open("w") as stdout,
        (stage.folder / "exec.stderr").open("w") as stderr,
        subprocess.Popen(
            command,
            cwd=stage.work,
            env=environment(stage, {}, required=required),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        ) as host,
    ):
        try:
            code = host.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(host.pid, signal.SIGKILL)
            raise
    assert code == 0, f"codex exec ended with {code}, see {stage.folder}"


class AppServer(Chat):
    """One thread of `codex app-server`."""

    def __init__(self, stage: Stage, program: Program) -> None:
        super().__init__(stage, program)
        program.request(
            "initialize",
            {
                "clientInfo": {"name": "abp-bridge-tests", "version": "0"},
                "capabilities": {"experimentalApi": True},
            },
        )
        program.tell("initialized")
        self._thread = program.request("thread/start", {"cwd": str(stage.work)})["thread"]["id"]
        self._turn = ""

    def begin(self, script: str) -> None:
        turn = self.program.request(
            "turn/start", {"threadId": self._thread, "input": [{"type": "text", "text": script}]}
        )
        self._turn = turn["turn"]["id"]

    def finish(self) -> str:
        status: str = self.program.hear("turn/completed")["turn"]["status"]
        return status

    def interrupt(self) -> None:
        self.program.request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn})


@contextmanager
def app_server(stage: Stage, app: str = "demo", **bridge_env: str) -> Iterator[AppServer]:
    """A running app-server whose bridge serves `app`."""
    with Program(
        [stage.program, "app-server"],
        cwd=stage.work,
        env=environment(stage, bridge_env, app=app),
        transcript=stage.folder / "codex.jsonl",
        asks="mcpServer/elicitation/request",
        answers={},
        stamp={},
    ) as program:
        yield AppServer(stage, program)


def exec_has_the_tools_in_its_first_request_without_being_told_to_wait(stage: Stage) -> None:
    run_exec(
        stage,
        calling("abp_call", capability="demo.echo", params={"value": "heard"}),
        required=False,
    )
    assert stage.model.requests[0].offers("abp_call"), (
        "the bridge was later than Codex's first second"
    )
    expect(stage.results()[0]["content"][0]["text"], "heard")


def exec_declines_by_itself_and_the_app_learns_that_no_person_was_asked(stage: Stage) -> None:
    run_exec(stage, asking("elicitation/confirm", message="Book?"), required=True)
    response = json.loads(stage.results()[0]["content"][0]["text"])
    expect(gist(response), (False, None, "host-policy"))
    assert "no person was asked" in response["error"]["message"]


def a_confirm_is_answered(stage: Stage) -> None:
    with app_server(stage) as codex:
        (shown,), response = codex.ask(
            "elicitation/confirm", accept(confirmed=True), message="Book?"
        )
    expect((shown["mode"], shown["message"]), ("form", "demo asks: Book?"))
    expect(gist(response), (True, {"confirmed": True}, "person"))


def a_choice_of_twelve_is_shown_whole(stage: Stage) -> None:
    with app_server(stage) as codex:
        (shown,), response = codex.ask(
            "elicitation/select", accept(selected="v12"), prompt="Which?", options=TWELVE
        )
    expect(
        shown["requestedSchema"]["properties"]["selected"]["enumNames"],
        [option["label"] for option in TWELVE],
    )
    expect(gist(response), (True, {"selected": "v12"}, "person"))


def a_number_is_asked_for_as_text(stage: Stage) -> None:
    with app_server(stage) as codex:
        (shown,), response = codex.ask(
            "elicitation/input",
            accept(value="4"),
            prompt="How many?",
            schema={"type": "integer", "minimum": 1},
        )
    expect(shown["requestedSchema"]["properties"]["value"]["type"], "string")
    expect(gist(response), (True, {"value": 4}, "person"))


def two_fields_are_one_form(stage: Stage) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "member": {"type": "boolean"}},
        "required": ["name"],
    }
    with app_server(stage) as codex:
        (shown,), response = codex.ask(
            "elicitation/input", accept(name="Ann", member=True), prompt="Who?", schema=schema
        )
    expect(set(shown["requestedSchema"]["properties"]), {"name", "member"})
    expect(gist(response), (True, {"value": {"name": "Ann", "member": True}}, "person"))


def a_person_who_declines_or_dismisses_is_not_a_policy(stage: Stage) -> None:
    with app_server(stage) as codex:
        for answer, outcome in ((DECLINE, "declined"), (CANCEL, "cancelled")):
            _, response = codex.ask("elicitation/confirm", answer, message="Book?")
            expect(gist(response), (False, None, "person"))
            expect((response["cancelled"], response["metadata"]["outcome"]), (True, outcome))


def content_that_does_not_fit_is_asked_for_again(stage: Stage) -> None:
    with app_server(stage) as codex:
        shown, response = codex.ask(
            "elicitation/confirm",
            accept(confirmed="maybe"),
            accept(confirmed=False),
            message="Book?",
        )
    assert "Please answer again" in shown[1]["message"]
    expect(gist(response), (True, {"confirmed": False}, "person"))


def an_interrupted_turn_cancels_the_apps_call_and_ends_its_question(stage: Stage) -> None:
    """Codex takes the call back and, not always, answers the question with `cancel` in the same
    breath: either may end it.
    """
    demo = recorded(stage.folder / "app", sys.executable, "-m", "abp_bridge.apps.demo")
    with app_server(stage, f"stdio:{shlex.join(demo)}") as codex:
        codex.begin(asking("elicitation/confirm", message="Book?"))
        codex.question()
        codex.interrupt()
        expect(codex.finish(), "interrupted")
        codex.play(calling("abp_status"))
    status: Json = json.loads(stage.results()[-1]["content"][0]["text"])
    expect(status["questions"]["open"], [])
    (outcome,) = (each["outcome"] for each in status["questions"]["ended"])
    assert outcome in ("withdrawn", "cancelled"), outcome
    assert len(stage.record().wire.sent("notifications/cancelled")) <= (outcome == "withdrawn"), (
        "an answered question is not taken back"
    )
    (call,), (cancel,) = (
        stage.record("app").wire.received(f"capabilities/{what}") for what in ("call", "cancel")
    )
    expect(cancel["params"]["callId"], call["params"]["options"]["callId"])


def a_pages_confirm_is_answered(stage: Stage) -> None:
    with app_server(stage, "demo:page") as codex:
        (shown,), response = codex.ask(
            "elicitation/confirm", accept(confirmed=True), message="Book?"
        )
    assert shown["message"].endswith("asks: Book?")
    expect(gist(response), (True, {"confirmed": True}, "person"))


def a_secret_is_typed_on_the_page_that_a_form_points_to(stage: Stage) -> None:
    """Codex declares url mode, and opens no address of this machine."""
    with app_server(stage, ABP_PAGE="link") as codex:
        codex.begin(asking("elicitation/input", prompt="Enter your API key"))
        shown = codex.question()
        expect((shown.params["mode"], shown.params["requestedSchema"]["properties"]), ("form", {}))
        type_on_the_page(shown.params["message"], KEY)
        expect(codex.finish(), "completed")
    response = json.loads(stage.results()[-1]["content"][0]["text"])
    expect(gist(response), (True, {"value": KEY}, "person"))
    expect(response["metadata"]["route"], "page (on a page of the bridge's own)")


CHECKS = (
    exec_has_the_tools_in_its_first_request_without_being_told_to_wait,
    exec_declines_by_itself_and_the_app_learns_that_no_person_was_asked,
    a_confirm_is_answered,
    a_choice_of_twelve_is_shown_whole,
    a_number_is_asked_for_as_text,
    two_fields_are_one_form,
    a_person_who_declines_or_dismisses_is_not_a_policy,
    content_that_does_not_fit_is_asked_for_again,
    an_interrupted_turn_cancels_the_apps_call_and_ends_its_question,
    a_pages_confirm_is_answered,
    a_secret_is_typed_on_the_page_that_a_form_points_to,
)
