"""Who answered, as the app is told: by the host's own time, whatever the bridge was busy with, and
by the next surface where a policy answered.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from support.harness import MODERN, Hosted, accept, hosted, refuse, run, text

Json = Any
FLOOR = {"ABP_PERSON_FLOOR": "400"}  # milliseconds, as it is when nobody says anything
LOW_FLOOR = {"ABP_PERSON_FLOOR": "0.001"}  # which no answer is faster than
FLOOR_OF_NOBODY = {"ABP_PERSON_FLOOR": "0"}  # whatever comes is a person's


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.slow
async def test_a_link_that_is_refused_at_once_was_refused_by_the_host(action: str) -> None:
    """The page, which starts for it, takes longer to be there than a person to read."""
    async with hosted("--app", "demo", answer=refuse(action), env=FLOOR) as host:
        response = await host.ask("elicitation/input", prompt="The key?", sensitive=True)
    assert response["metadata"]["answeredBy"] == "host-policy"
    assert response["metadata"]["evidence"] == "faster-than-reading"


# Nobody sleeps: the bridge's clock jumps while it loads the cipher, by more than the floor below.
SLOW_CIPHER = """
import sys, time

clock, ahead = time.monotonic, 0.0
time.monotonic = lambda: clock() + ahead

class Slow:
    def find_spec(self, name, path=None, target=None):
        global ahead
        if name.partition(".")[0] == "cryptography" and not ahead:
            ahead = 50.0
            open({loaded!r}, "x").close()

sys.meta_path.insert(0, Slow())
"""
# milliseconds: far more than the host's answer takes on any machine, less than the loading
HIGH_FLOOR = {"ABP_PERSON_FLOOR": "20000"}


@pytest.mark.process
async def test_what_is_loaded_before_a_round_leaves_is_no_time_of_the_hosts(tmp_path: Path) -> None:
    """The state of the first round is sealed, and what seals it is loaded for that."""
    loaded = tmp_path / "loaded"
    (tmp_path / "sitecustomize.py").write_text(SLOW_CIPHER.format(loaded=str(loaded)))
    env = {**HIGH_FLOOR, "PYTHONPATH": str(tmp_path)}

    async def answer(params: Json) -> Json:
        await host.client.list_tools()  # the bridge has looked around since it was busy
        return refuse("decline")(params)

    async with hosted("--app", "demo", answer=answer, version=MODERN, env=env) as host:
        assert not loaded.exists(), "only the question needs it"
        response = await host.ask("elicitation/confirm", message="Book?")
    assert loaded.exists()
    assert response["metadata"]["answeredBy"] == "host-policy"
    assert response["metadata"]["evidence"] == "faster-than-reading"


async def test_what_a_policy_answered_is_asked_on_the_next_surface(tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(["written"]))
    arguments = ["--app", "demo", "--answers", str(answers), "--ask-on", "host,mock"]
    async with hosted(*arguments, answer=accept(value="made up"), env=FLOOR) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["data"] == {"value": "written"}
    assert response["metadata"]["answeredBy"] == "script"


def said_by(who: str, action: str = "accept", **content: Json) -> Any:
    """A host's answer that names who gave it, as another bridge does."""
    meta = {"abp": {"answeredBy": who}}
    return lambda params: types.ElicitResult.model_validate(
        {"action": action, "content": content or None, "_meta": meta}
    )


async def test_whom_a_host_names_is_who_answered() -> None:
    async with hosted("--app", "demo", answer=said_by("script", value="Ada")) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == ("script", "host-says")


@pytest.mark.parametrize("who", ["unknown", "human", "a ghost"])
async def test_a_host_that_names_nobody_who_is_known_is_not_said_to_have_denied_a_person(
    who: str,
) -> None:
    async with hosted("--app", "demo", answer=said_by(who, "decline")) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["metadata"]["answeredBy"] == "unknown"
    assert response["error"]["message"] == "The host does not say that a person answered."


async def test_a_file_that_no_person_refused_was_not_refused_by_the_user(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    answer = said_by("model", confirmed=False)
    async with hosted("--app", "demo", "--root", str(tmp_path), answer=answer) as host:
        response = await host.ask("elicitation/resource", uri=str(tmp_path / "notes.txt"))
    assert response["metadata"]["answeredBy"] == "model"
    assert "user" not in response["error"]["message"]


async def test_a_model_that_is_not_sent_its_task_was_refused_by_a_person() -> None:
    arguments = ["--app", "demo", "--sampling", "acp:true"]
    async with hosted(*arguments, answer=accept(decision="refuse"), env=FLOOR_OF_NOBODY) as host:
        response = await host.ask("sampling/create", task="Sum it up.")
    assert response["error"]["message"] == "The user did not let it be sent to a model."
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == ("person", "not-measured")


async def test_a_yes_of_a_hosts_script_deletes_nothing() -> None:
    """Even one that took longer than anybody reads."""
    request: Json = {"message": "Delete it?", "destructive": True}
    answer = said_by("script", confirmed="yes")
    async with hosted("--app", "demo", answer=answer, env=LOW_FLOOR) as host:
        response = await host.ask("elicitation/confirm", **request)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == ("script", "host-says")


async def test_a_host_that_says_that_nobody_answered_has_not_been_dismissed_by_a_person() -> None:
    async with hosted("--app", "demo", answer=said_by("nobody", value="Ada")) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert response["metadata"]["answeredBy"] == "nobody"
    assert "the host says that nobody answered" in response["error"]["message"]


async def test_a_form_that_a_machine_began_is_no_persons_when_it_is_mended() -> None:
    """What did not fit is asked again, of whoever it is that says nothing of themselves."""
    given = [
        types.ElicitResult(
            action="accept",
            content={"key": "made up", "count": "many"},
            _meta={"abp": {"answeredBy": "script"}},
        ),
        types.ElicitResult(action="accept", content={"count": 3}),
    ]
    properties: Json = {"key": {"type": "string"}, "count": {"type": "integer"}}
    schema: Json = {"type": "object", "properties": properties, "required": ["key", "count"]}
    async with hosted("--app", "demo", answer=lambda params: given.pop(0)) as host:
        response = await host.ask("elicitation/input", prompt="Your order?", schema=schema)
    assert response["data"] == {"value": {"key": "made up", "count": 3}}
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == ("script", "host-says")


FAST_AGENT = types.Implementation(name="fast-agent-mcp", version="0.10.46")


@asynccontextmanager
async def slow_fast_agent(action: str, *arguments: str) -> AsyncIterator[Hosted]:
    """It answers only after the bridge has heard something else of it, and so has waited: by this
    floor long enough for a reader.
    """

    async def answer(params: Json) -> Json:
        await host.client.list_tools()
        return refuse(action)(params)

    floor = {"ABP_PERSON_FLOOR": "0.001"}
    arguments = ("--app", "demo", *arguments)
    async with hosted(*arguments, answer=answer, env=floor, client_info=FAST_AGENT) as host:
        yield host


async def test_a_host_that_dismisses_by_itself_is_no_person_however_long_it_took(
    tmp_path: Path,
) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(["written"]))
    arguments = ["--answers", str(answers), "--ask-on", "host,mock"]
    async with slow_fast_agent("cancel", *arguments) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["data"] == {"value": "written"}
    assert response["metadata"]["answeredBy"] == "script"


@pytest.mark.slow
async def test_a_link_that_a_headless_host_dismisses_is_dismissed_by_that_host() -> None:
    """It is the page that asks, and the host that answers: what is known of it counts."""
    async with slow_fast_agent("cancel", "--page", "link", "--ask-on", "page") as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == ("unknown", "maybe-headless")


@pytest.mark.process
def test_what_fast_agent_dismisses_is_asked_at_the_terminal() -> None:
    """Its handshake and its dismissal are recorded, the person at the terminal is not."""
    played = run("replay", str(Path(__file__).with_name("fast_agent.jsonl")))
    assert played.returncode == 0, played.stdout


@pytest.mark.parametrize(
    ("action", "who", "evidence"),
    [("cancel", "unknown", "maybe-headless"), ("decline", "person", "interactive-host")],
)
async def test_a_no_that_only_a_person_says_is_told_from_one_that_a_host_says_too(
    action: str, who: str, evidence: str
) -> None:
    async with slow_fast_agent(action) as host:
        response = await host.ask("elicitation/confirm", message="Book?")
    metadata = response["metadata"]
    assert (metadata["answeredBy"], metadata["evidence"]) == (who, evidence)
    assert response["cancelled"]


@pytest.mark.slow
async def test_questions_shown_together_that_are_answered_together_are_a_persons() -> None:
    """A host that shows one after the other has each wait for the first answer."""
    shown = 0
    answered = anyio.Event()

    async def answer(params: Json) -> Json:
        nonlocal shown
        shown += 1
        if shown == 4:
            for _ in range(200):  # far longer than what lies between the four
                await host.client.list_tools()
            answered.set()
        await answered.wait()
        return refuse("decline")(params)

    profiled = types.Implementation(name="claude-code", version="2")
    env = {"ABP_PERSON_FLOOR": "0.001"}
    async with hosted("--app", "demo", answer=answer, env=env, client_info=profiled) as host:
        asked = [{"method": "elicitation/confirm", "params": {"message": "Book?"}}] * 4
        result = await host.call("demo.ask_all", requests=asked)
    told = [response["metadata"]["evidence"] for response in json.loads(text(result))]
    assert told == ["interactive-host"] * 4


async def test_without_a_next_surface_a_policys_answer_is_told_as_one() -> None:
    async with hosted("--app", "demo", answer=accept(value="made up"), env=FLOOR) as host:
        response = await host.ask("elicitation/input", prompt="Your name?")
    assert response["data"] == {"value": "made up"}
    assert response["metadata"]["answeredBy"] == "host-policy"


async def test_only_what_somebody_answered_has_evidence_here_and_in_the_status() -> None:
    slow = {"ABP_PERSON_FLOOR": "60000"}
    async with hosted("--app", "demo", answer=refuse("decline"), env=slow) as host:
        text = {"type": "string"}
        default = await host.ask("elicitation/preference", prompt="?", schema=text, default="A4")
        policy = await host.ask("elicitation/confirm", message="Book?")
        nobody = await host.ask("sampling/create", task="Sum up")
        ended = (await host.status())["questions"]["ended"]
    told = [
        (each["metadata"]["answeredBy"], each["metadata"].get("evidence"))
        for each in (default, policy, nobody)
    ]
    fast = "faster-than-reading"
    assert told == [("default", None), ("host-policy", fast), ("nobody", None)]
    assert [each.get("evidence") for each in ended] == [fast, fast, None]


async def test_a_policy_cannot_confirm_what_cannot_be_undone() -> None:
    async with hosted("--app", "demo", answer=accept(confirmed=True), env=FLOOR) as host:
        response = await host.ask("elicitation/confirm", message="Delete all?", destructive=True)
    assert not response["success"]
    assert "no person was asked" in response["error"]["message"]
