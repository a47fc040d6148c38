"""What is written down of a session, and where."""

from __future__ import annotations

from collections.abc import Mapping

from abp_bridge.log import LEVELS
from abp_bridge.settings.readers import read_choice
from abp_bridge.settings.row import ALL, PROXIED, Setting

_LOG = "what is logged"

ROWS: Mapping[str, Setting] = {
    "audit": Setting(
        variable="ABP_AUDIT",
        flag="--audit",
        path=True,
        commands=PROXIED,
        metavar="FILE",
        private=True,
        help="add a line of JSON for each question: who answered, how and when, and no answer",
    ),
    "record": Setting(
        variable="ABP_RECORD",
        flag="--record",
        path=True,
        commands=(*PROXIED, "try"),
        metavar="FILE",
        private=True,
        replayable="file",
        help=(
            "write down what is said on both sides, without secrets; see it with"
            " 'abp-bridge trace FILE'"
        ),
    ),
    "log_level": Setting(
        variable="ABP_LOG_LEVEL",
        flag="--log-level",
        commands=ALL,
        read=read_choice(*LEVELS),
        choices=LEVELS,
        group=_LOG,
        private=True,
        help="what is less is not written; `debug` has the way of each question, not its words",
    ),
    "log_file": Setting(
        variable="ABP_LOG_FILE",
        flag="--log-file",
        path=True,
        commands=ALL,
        metavar="FILE",
        group=_LOG,
        private=True,
        help="write the log here too; no answer is ever in it",
    ),
}
