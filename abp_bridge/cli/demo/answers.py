"""The demo's own script: what it answers where there is no terminal to ask at."""

from __future__ import annotations

from abp_bridge.core.json_value import Json

# A no, a decline and a cancel too: they are answers that a person gives.
BUILT_IN: tuple[Json, ...] = (
    {"match": "Whose trip", "value": "Ada Example"},
    {"match": "ticket be sent", "value": "ada@example.org"},
    {"match": "Sea or mountains", "value": "sea"},
    {"match": "season", "value": "autumn"},
    {"match": "month", "value": "09"},
    {"match": "How many travellers", "value": 2},
    {"match": "cost at most", "action": "cancel"},
    {"match": "By train", "value": True},
    {"match": "Which class", "value": "second"},
    {"match": "Who should be called", "content": {"name": "Grace Example"}},
    {"match": "Window or aisle", "action": "decline"},
    {"match": "Book it", "value": True},
    {"match": "Delete the draft", "value": "No, do not"},
)
