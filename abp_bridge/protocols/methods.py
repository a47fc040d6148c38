"""The methods of all protocols, as a set that a test compares with the dispatch tables."""

from __future__ import annotations

from abp_bridge.core.ledger import NoticeKind
from abp_bridge.core.question import Kind
from abp_bridge.protocols.abp.calls import PREFIX, PROGRESS
from abp_bridge.protocols.acp import v1 as acp

_ABP = """
    initialize shutdown elicitation/request elicitation/response sampling/create
    capabilities/list capabilities/call capabilities/cancel
    notifications/initialized notifications/resources/updated
"""
_MCP = """
    initialize ping server/discover logging/setLevel tools/list tools/call
    resources/list resources/templates/list resources/read resources/subscribe resources/unsubscribe
    prompts/list prompts/get completion/complete roots/list
    elicitation/create sampling/createMessage subscriptions/listen
    notifications/initialized notifications/cancelled notifications/message
    notifications/tools/list_changed notifications/resources/list_changed
    notifications/prompts/list_changed notifications/roots/list_changed
    notifications/elicitation/complete notifications/subscriptions/acknowledged
"""
_ACP = """
    initialize authenticate session/new session/load session/resume session/fork session/list
    session/prompt session/update session/cancel session/close session/delete session/set_mode
    session/set_config_option session/request_permission elicitation/create elicitation/complete
"""

METHODS = frozenset(
    (
        *_ABP.split(),
        *(kind.value for kind in Kind),
        *(f"{PREFIX}{event.value}" for event in NoticeKind if event is not NoticeKind.OTHER),
        PROGRESS,
        *_MCP.split(),
        *_ACP.split(),
        acp.CANCEL_REQUEST,
    )
)
