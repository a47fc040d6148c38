"""Files that a program's result refers to, fetched over HTTP: from no private network that the
person did not allow, in bounded time and size, and without cookies, of which a program has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from abp_bridge.core.capability import AppFile
from abp_bridge.core.json_value import JsonObject
from abp_bridge.extras import install_command
from abp_bridge.protocols.abp.data import authorize
from abp_bridge.session.app import DOWNLOAD_LIMIT, MAX_DOWNLOAD, AppError


async def download(url: str, auth: JsonObject, allowed_hosts: Sequence[str]) -> AppFile:
    """Fetch `url` with what the app gave for it (`App.download`).

    Args:
        url: Its address.
        auth: The app's own, which goes to no other origin.
        allowed_hosts: Private hosts that may be reached.

    Raises:
        AppError: It cannot be had, or may not be.
    """
    try:
        from abp_bridge.apps.browser.fetch import Guard, get
    except ModuleNotFoundError:
        words = f"Fetching files needs what comes with: {install_command('browser')}"
        raise AppError(words, "NOT_SUPPORTED") from None
    address, headers = authorize(url, auth)
    asked = get(
        address,
        Guard(allowed_hosts),
        what="file",
        accept="*/*",
        limit=DOWNLOAD_LIMIT,
        headers=headers,
    )
    content = bytearray()
    async with asked as file:
        async for data in file.body:
            content += data
            if len(content) > MAX_DOWNLOAD:
                raise AppError(f"it is larger than {MAX_DOWNLOAD} bytes")
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    return AppFile(bytes(content), file.headers.get("content-type", ""), name)
