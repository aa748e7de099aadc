"""The broker's log on stderr: text for people, or JSON for programs."""

from __future__ import annotations

import logging
import sys

from sharegroup.model.printable import EscapedLines


def set_up(level: str, log_format: str) -> None:
    """Write log records of ``level`` and above to stderr, as ``text`` or ``json``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _json() if log_format == "json" else EscapedLines("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _json() -> logging.Formatter:
    """One JSON object per line; ``exc_info`` has the traceback."""
    from pythonjsonlogger.json import JsonFormatter  # slow import, needed for JSON only

    return JsonFormatter(
        ["levelname", "name", "message"],
        rename_fields={"levelname": "level", "name": "logger"},
        timestamp=True,
    )
