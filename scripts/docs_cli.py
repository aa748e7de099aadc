"""Writes docs/cli.md: the help texts of all commands.

``python scripts/docs_cli.py --check [FILE]`` only checks whether the page, or FILE, is up to date.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cli.md"
# No colours, no boxes, the same width on every machine.
PLAIN = {"TYPER_USE_RICH": "0", "COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1"}
os.environ.update(PLAIN)
os.environ.pop("SHAREGROUP_BOOTSTRAP_SERVER", None)

from typer.main import get_command

from sharegroup.cli import main
from sharegroup.cli.application import build

HEAD = """\
# Command line

<!-- no block of this page is run: each is what a command prints with --help -->

Written by `make docs` from the `--help` of the commands. `serve` and `fsck` work on a data folder.
All others find the broker at `--bootstrap-server` (`-b`), which may stand anywhere on the line, or
in `SHAREGROUP_BOOTSTRAP_SERVER`, or at 127.0.0.1:9092. If no broker can be reached, they say so
after five seconds, or ten if nothing is heard of the address.

| Exit status | |
| --- | --- |
| 0 | done; also if the reader has closed the pipe, and if Ctrl-C ended `groups describe --watch` |
| 1 | the broker refused; the sentence on stderr begins with its error. `fsck`: something is wrong |
| 2 | wrong usage, or an invalid setting |
| 3 | no broker was reached, or it went away; `fsck`: the folder cannot be checked |
| 130, 143 | Ctrl-C, SIGTERM: work in progress was finished first (a second Ctrl-C ends at once) |

With `--json`, stdout holds one JSON document and nothing else (`consume`: one for each record;
`groups redrive`, `dead purge`: one for each transaction, and one at the end); messages to the user
go to stderr. For `groups` there is [an operator's page](groups.md).

`sharegroup --install-completion` lets the shell's Tab key complete commands, options, and the names
of topics and groups. It offers no names if the broker does not answer within a second, and none
with characters that mean something to a shell or a terminal: any client may name a group.
"""


def commands() -> Iterator[tuple[str, ...]]:
    """Every command of the tree, a parent before its verbs."""

    def below(command: object, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, (*words, name))

    return below(get_command(build()), ())


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
        for command in commands()
    ]
    return "\n".join([HEAD, *sections])


def write() -> int:
    """Write the page, or check it."""
    text = page()
    if sys.argv[1:2] == ["--check"]:
        path = Path(sys.argv[2]) if sys.argv[2:] else PAGE
        return 0 if path.exists() and path.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(write())
