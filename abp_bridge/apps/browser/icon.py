"""The icon that an app's manifest names: fetched as the app itself may be, and only a small picture
of it shown.

An icon is an app's own choice, and proves nothing: it stands beside an origin, never for one.
"""

from __future__ import annotations

import base64
import struct

from abp_bridge.apps.browser.fetch import Guard, get
from abp_bridge.core.file import sniff
from abp_bridge.session.app import AppError

MAX_ICON_BYTES = 65_536  # bytes; ABP has 192 x 192 pixels
MAX_ICON_PIXELS = 1_024  # pixels, either way: what unpacks to more is a burden
LIMIT = 5.0  # seconds

_SIZE = struct.Struct(">II")  # width and height, behind a PNG's mark and the name of its head
_SIZE_AT = 16


async def fetch_icon(url: str, guard: Guard) -> str:
    """The PNG at `url`.

    Args:
        url: Its address.
        guard: Says which hosts may be reached.

    Returns:
        It, as a `data:` address.

    Raises:
        AppError: It cannot be had, or is no small PNG.
    """
    content = b""
    async with get(url, guard, what="app icon", accept="image/png", limit=LIMIT) as file:
        async for data in file.body:
            content += data
            if len(content) > MAX_ICON_BYTES:
                raise AppError(f"an icon may have {MAX_ICON_BYTES} bytes")
    if sniff(content) != "image/png" or len(content) < _SIZE_AT + _SIZE.size:
        raise AppError("an icon must be a PNG")
    if max(_SIZE.unpack_from(content, _SIZE_AT)) > MAX_ICON_PIXELS:
        raise AppError(f"an icon may be {MAX_ICON_PIXELS} pixels wide and high")
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
