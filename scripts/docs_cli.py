"""Writes docs/cli.md: the help of every command, as the commands print it.

``python scripts/docs_cli.py --check`` only tells whether the page is up to date.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cli.md"
# No colours, no boxes, the same width on every machine.
PLAIN = {"TYPER_USE_RICH": "0", "COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1"}
os.environ.update(PLAIN)
os.environ.pop("SHAREGROUP_BOOTSTRAP_SERVER", None)

from sharegroup.cli import main

COMMANDS = (
    (),
    ("serve",),
    ("topics",),
    ("topics", "create"),
    ("topics", "list"),
    ("topics", "describe"),
    ("topics", "delete"),
    ("produce",),
    ("consume",),
    ("groups",),
    ("groups", "list"),
    ("groups", "describe"),
    ("groups", "reset-offsets"),
    ("groups", "delete-offsets"),
    ("groups", "set"),
    ("groups", "delete"),
    ("fsck",),
)

HEAD = """\
# Command line

Written by `make docs` from the `--help` of the commands. `serve` and `fsck` work on a data folder.
All others find the broker at `--bootstrap-server`, or where `SHAREGROUP_BOOTSTRAP_SERVER` says, or
at 127.0.0.1:9092.

| Exit status | |
| --- | --- |
| 0 | done |
| 1 | the broker refused; the sentence on stderr begins with its error. `fsck`: something is wrong |
| 2 | wrong usage, or a setting that cannot be |
| 3 | no broker was reached, or it went away; `fsck`: the folder is in use or is none |
| 130, 143 | Ctrl-C, SIGTERM: what was begun was finished first (a second Ctrl-C ends at once) |

With `--json`, stdout holds one JSON document (`consume`: one for each record) and nothing else;
what is meant for people goes to stderr. For `groups` there is [an operator's page](groups.md).
"""


def help_of(command: tuple[str, ...]) -> str:
    """What ``sharegroup COMMAND --help`` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main([*command, "--help"])
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def page() -> str:
    """The whole page."""
    sections = [
        f"## {' '.join(('sharegroup', *command))}\n\n```text\n{help_of(command)}\n```\n"
        for command in COMMANDS
    ]
    return "\n".join([HEAD, *sections])


def write() -> int:
    """Write the page, or check it."""
    text = page()
    if sys.argv[1:] == ["--check"]:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(write())
