"""What a broker says of itself, on stderr: lines for people, or JSON for programs."""

from __future__ import annotations

import logging
import sys

from sharegroup.model.printable import EscapedLines


def set_up(level: str, log_format: str) -> None:
    """Write log records from ``level`` up to stderr, as ``text`` or ``json``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _json() if log_format == "json" else EscapedLines("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _json() -> logging.Formatter:
    """One object a line; a traceback is in ``exc_info``."""
    from pythonjsonlogger.json import JsonFormatter  # only who asks for it pays for the import

    return JsonFormatter(
        ["levelname", "name", "message"],
        rename_fields={"levelname": "level", "name": "logger"},
        timestamp=True,
    )
