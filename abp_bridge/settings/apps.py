"""The apps that are offered, the browser that they run in, and where their results go."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from abp_bridge.settings.readers import read_bool, read_browser_url, read_list, read_tool_cache
from abp_bridge.settings.row import TRYING, Setting

_switch = partial(Setting, read=read_bool)
_duration = partial(Setting, duration=True, replayable="plain")

ROWS: Mapping[str, Setting] = {
    "apps": Setting(
        flag="--app",
        metavar="TARGET",
        repeated=True,
        replayable="app",
        help="an app to offer; opened when first used. May be repeated",
    ),
    "allowed_hosts": Setting(
        flag="--allow",
        metavar="HOST",
        repeated=True,
        help="a private host on which the model may connect apps. May be repeated",
    ),
    "frames": Setting(
        variable="ABP_FRAMES",
        flag="--frames",
        metavar="ORIGIN",
        read=read_list(" "),
        separator=" ",
        repeated=True,
        commands=(*TRYING, "check"),
        private=True,
        help=(
            "an origin whose frames offer their WebMCP tools too, in pages that let them. May be"
            " repeated"
        ),
    ),
    "output_dir": Setting(
        variable="ABP_OUTPUT_DIR",
        flag="--output-dir",
        path=True,
        commands=TRYING,
        metavar="DIR",
        shown="a temporary folder that goes when the session ends",
        private=True,
        replayable="file",
        help="keep the files of results here",
    ),
    "tool_cache": Setting(
        variable="ABP_TOOL_CACHE",
        path=True,
        read=read_tool_cache,
        shown="`abp-bridge` in the folder for your caches",
        private=True,
        help=(
            "keep here what each `--app` offers, for hosts that list tools only once: the next"
            " session has them in its first list. `off`: nowhere"
        ),
    ),
    "headless": _switch(
        variable="ABP_HEADLESS",
        flag="--headful",
        commands=(*TRYING, "check"),
        const=False,
        replayable="plain",
        help="show the browser (`ABP_HEADLESS=false`)",
    ),
    "chrome": Setting(
        variable="ABP_CHROME",
        path=True,
        shown="found by itself",
        private=True,
        help="the browser to use",
    ),
    "chrome_sandbox": _switch(
        variable="ABP_CHROME_SANDBOX",
        private=True,
        help="`false` where Chromium cannot have one, as root in a container",
    ),
    "profile": Setting(
        variable="ABP_PROFILE",
        flag="--profile",
        path=True,
        commands=(*TRYING, "check", "login"),
        metavar="DIR",
        shown="an empty one each time; `login` has one among your data",
        private=True,
        help=(
            "the folder in which the browser of your apps keeps where it is signed in; 'abp-bridge"
            " login' has you sign in there"
        ),
    ),
    "browser_url": Setting(
        variable="ABP_BROWSER_URL",
        flag="--browser-url",
        commands=(*TRYING, "check"),
        read=read_browser_url,
        metavar="URL",
        shown="a browser of the bridge's own",
        private=True,
        help=(
            "use your apps in a tab of a Chromium that runs with `--remote-debugging-port`, at"
            " `http://127.0.0.1:9222`; you are asked before it is connected"
        ),
    ),
    "browser_timeout": _duration(
        variable="ABP_BROWSER_TIMEOUT",
        help="for starting the browser, and opening the page",
    ),
}
