"""Questions of real servers reach the user's page, and only a yes does the deed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from support.harness import RawHost
from support.listening import listening
from support.mcp_proxy import MCP

from .servers import HERE, PATIENCE, MongoDB, Person, installed

Json = Any

CANNOT: dict[str, Json] = {}
FORMS: dict[str, Json] = {"elicitation": {"form": {}, "url": {}}}
DROP = {"database": "shop", "connectionId": "preconfigured"}
REFUSED = "User did not confirm the execution of the `drop-database` tool"


class Host(RawHost):
    """A host that launches `abp-bridge mcp` where it launched a server, and `can` do so much."""

    patience = PATIENCE

    def __init__(
        self,
        server: list[str],
        *options: str,
        can: Mapping[str, Json],
        env: Mapping[str, str],
        bridge: bool = True,
    ) -> None:
        command = [*MCP, *options, "--", *server] if bridge else server
        super().__init__(command=command, env={"ABP_PERSON_FLOOR": "400", **env})
        self.can = can

    def greet(self) -> None:
        response = self.initialize(**self.can)
        assert "result" in response, response

    def text_answering(self, call: int, response: Mapping[str, Json]) -> str:
        asked = 0
        while "method" in (message := self.until(lambda each: "id" in each)):
            assert message["method"] == "elicitation/create"
            self._send({"id": message["id"], **response})
            asked += 1
        assert asked
        assert message["id"] == call
        self._passed.append(message)
        return self.text(call)


def python_server(name: str) -> list[str]:
    return [str(installed(name)), str(HERE / f"{name}_server.py")]


# --- what a user presses, and what a policy answers -----------------------------------------------


def test_mongodb_drops_without_a_question_where_nobody_is_asked(mongodb: MongoDB) -> None:
    with Host(mongodb.command, can=CANNOT, env={}, bridge=False) as host:
        host.greet()
        assert "Successfully dropped" in host.text(host.begin_call("drop-database", **DROP))
    assert mongodb.commands().count("dropDatabase") == 1


@pytest.mark.parametrize("pressed", ["yes", "no", "decline", "cancel"])
def test_question_of_mongodb_is_on_the_page(mongodb: MongoDB, person: Person, pressed: str) -> None:
    with Host(mongodb.command, can=CANNOT, env=person.environment) as host:
        host.greet()
        call = host.begin_call("drop-database", **DROP)
        page = person.look()
        for words in ("mongodb-mcp-server", "drop the **shop** database", "Yes, I confirm"):
            assert words in page
        person.press(action=pressed)
        assert (REFUSED in host.text(call)) is (pressed != "yes")
    assert mongodb.commands().count("dropDatabase") == (pressed == "yes")


AZURE = {"vault": "v", "secret": "s", "subscription": "00000000-0000-0000-0000-000000000000"}
AZURE_CALL = {"intent": "look", "command": "keyvault_secret_get", "parameters": AZURE}
# server and tool -> words of the question, and what the server says after each form that is sent
SERVERS: dict[tuple[str, str], tuple[str, dict[str, Mapping[str, str]]]] = {
    ("fastmcp", "name"): (
        "",
        {
            "accept Ada": {"action": "send", "field-0": "Ada"},
            "decline None": {"action": "decline"},
        },
    ),
    ("fastmcp", "pick"): (
        "",
        {
            "accept right": {"action": "send", "field-0": "1"},
            "cancel None": {"action": "cancel"},
        },
    ),
    ("okta", "deactivate_user"): (
        "Deactivate ada@example.com?",
        {"DEACTIVATED": {"action": "yes"}, "not done": {"action": "no"}},
    ),
    ("azure", "keyvault"): ("reject", {"cancelled": {"action": "no"}}),
}


@pytest.mark.parametrize(
    ("server", "tool", "said"),
    [(*key, said) for key, (_, rows) in SERVERS.items() for said in rows],
)
def test_question_of_a_server_is_on_the_page(
    person: Person, server: str, tool: str, said: str
) -> None:
    words, rows = SERVERS[server, tool]
    azure = server == "azure"
    command = [str(installed("azure")), "server", "start"] if azure else python_server(server)
    with Host(command, can=CANNOT, env=person.environment) as host:
        host.greet()
        call = host.begin_call(tool, **(AZURE_CALL if azure else {}))
        assert words.lower() in person.look().lower()
        person.press(**rows[said])
        assert said.lower() in host.text(call).lower()


# what a host answers at once, by itself
INSTANT: dict[str, Json] = {
    "yes": {"result": {"action": "accept", "content": {"confirmation": "Yes, do it"}}},
    "another yes": {"result": {"action": "accept", "content": {"confirm": True}}},
    "nothing": {"result": {"action": "accept", "content": {}}},
    "decline": {"result": {"action": "decline"}},
    "an error": {"error": {"code": -32601, "message": "Method not found"}},
}


@pytest.mark.parametrize("answer", INSTANT)
def test_instant_answer_of_a_host_drops_nothing(mongodb: MongoDB, answer: str) -> None:
    with Host(mongodb.command, "--page", "off", can=FORMS, env={}) as host:
        host.greet()
        call = host.begin_call("drop-database", **DROP)
        assert REFUSED in host.text_answering(call, INSTANT[answer])
    assert "dropDatabase" not in mongodb.commands()


def test_without_person_nothing_is_dropped_and_the_result_says_why(mongodb: MongoDB) -> None:
    with Host(mongodb.command, "--page", "off", can=CANNOT, env={}) as host:
        assert "--without-person" in host.initialize()["error"]["message"]
    with Host(mongodb.command, "--page", "off", "--without-person", can=CANNOT, env={}) as host:
        host.greet()
        words = host.text(host.begin_call("drop-database", **DROP))
    assert REFUSED in words
    assert "abp-bridge" in words
    assert "dropDatabase" not in mongodb.commands()


# --- everything, as an app ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["", "socket", "page"])
def test_everything_as_an_app(way: str) -> None:
    with ExitStack() as stack:
        app = f"mcp:{installed('everything')} stdio"
        if way:
            app = getattr(stack.enter_context(listening("--app", app)), way)
        host = stack.enter_context(RawHost("--app", app, env={"ABP_PERSON_FLOOR": "0"}))
        host.patience = PATIENCE
        host.initialize(elicitation={}, sampling={})
        said = host.text(host.begin_call("abp_connect"))
        assert 'It says of itself: "# Everything Server' in said
        assert "Warning: not carried: completion of arguments" in said
        check_what_it_asks(host, through=bool(way))
        check_what_it_tells(host)
        assert host.end() == 0


def check_what_it_asks(host: RawHost, *, through: bool) -> None:
    for answer, said in (
        ({"action": "decline"}, "declined"),
        ({"action": "cancel"}, "cancelled"),
        ({"action": "accept", "content": FILLED_IN}, "Favorite Integer: 3"),
    ):
        call = host.begin_call("abp_trigger-elicitation-request")
        asked = host.until(lambda each: each.get("method") == "elicitation/create")
        assert asked["params"]["message"].endswith("mcp:mcp-server-everything stdio asks: " + FORM)
        schema = asked["params"]["requestedSchema"]
        assert len(schema["properties"]) == 13
        assert {name: schema["properties"][name] for name in SHOWN} == SHOWN
        host.reply(asked["id"], answer)
        assert said in host.text(call)
    call = host.begin_call("abp_trigger-sampling-request", prompt="Hello")
    asked = host.until(lambda each: each.get("method") == "sampling/createMessage")
    [message] = asked["params"]["messages"]
    words = message["content"]["text"]
    assert "Resource trigger-sampling-request context: Hello" in words
    assert "a helpful test server." in (words if through else asked["params"]["systemPrompt"])
    content = {"type": "text", "text": "a planted sentence"}
    host.reply(asked["id"], {"role": "assistant", "content": content, "model": "m-9"})
    sampled = host.text(call)
    assert "a planted sentence" in sampled
    assert ("m-9" in sampled) is not through


FORM = "Please provide inputs for the following fields:"
FILLED_IN: Json = {"name": "Ann", "check": True, "integer": 3, "titledSingleSelectEnum": "hero-2"}
SHOWN: Json = {
    "integer": {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "title": "Integer",
        "default": 42,
        "description": "Your favorite integer (do not give us your phone number, pin, or other"
        " sensitive info)",
    },
    "untitledMultipleSelectEnum": {
        "type": "array",
        "items": {"type": "string", "enum": ["Guitar", "Piano", "Violin", "Drums", "Bass"]},
        "minItems": 1,
        "maxItems": 3,
        "title": "Untitled Multiple Select Enum",
        "default": ["Guitar"],
        "description": "Choose your favorite instruments",
    },
}


def check_what_it_tells(host: RawHost) -> None:
    name = "abp_trigger-long-running-operation"
    arguments, meta = {"duration": 1, "steps": 2}, {"progressToken": "p"}
    call = host.begin("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
    for step in (1, 2):
        told = host.until(lambda each: each.get("method") == "notifications/progress")["params"]
        assert (told["progress"], told["total"]) == (step, 2)
    assert "completed" in host.text(call)
    picture = host.response(host.begin_call("abp_get-tiny-image"))["result"]["content"]
    assert [each["type"] for each in picture] == ["text", "image", "resource_link"]
    uri = "demo://resource/dynamic/text/1"
    host.text(host.begin_call("abp_resources_subscribe", uri=uri))
    host.text(host.begin_call("abp_toggle-simulated-logging"))
    host.text(host.begin_call("abp_toggle-subscriber-updates"))
    for event, of_it in TOLD.items():
        while (told := host.notified("notifications/message")["data"])["event"] != event:
            pass
        assert of_it in told["data"]


TOLD = {"notifications/message": "level", "notifications/resources/updated": "uri"}
