"""HTTP without TCP where no marker says otherwise."""

from support.local_http import without_tcp  # noqa: F401
