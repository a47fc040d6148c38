"""A Chromium that somebody started, and that a bridge may drive."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from abp_bridge.apps.browser.chromium import find_chromium
from abp_bridge.settings import read_settings


@contextmanager
def running_chromium(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """It runs with these options and pages, and a profile in `folder`: where it is driven."""
    lean = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"  # half of a start
    options = ["--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={folder}", lean]
    command = [str(find_chromium(read_settings())), *options, *words]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as browser:
        assert browser.stderr is not None
        said = next(line for line in browser.stderr if "DevTools listening on" in line)
        drain = threading.Thread(target=browser.stderr.read)
        drain.start()
        try:
            yield f"http://127.0.0.1:{urlsplit(said.split()[-1]).port}"
        finally:
            browser.terminate()
            drain.join()
