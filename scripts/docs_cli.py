"""Writes docs/cli.md: the help of every command that there is, as the commands print it.

``python scripts/docs_cli.py --check [FILE]`` only tells whether the page, or FILE, is up to date.
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
where `SHAREGROUP_BOOTSTRAP_SERVER` says, or at 127.0.0.1:9092. A broker that is not there is said
within two seconds.

| Exit status | |
| --- | --- |
| 0 | done; also the reader of a pipe has left, and Ctrl-C ended `groups describe --watch` |
| 1 | the broker refused; the sentence on stderr begins with its error. `fsck`: something is wrong |
| 2 | wrong usage, or a setting that cannot be |
| 3 | no broker was reached, or it went away; `fsck`: the folder is in use or is none |
| 130, 143 | Ctrl-C, SIGTERM: what was begun was finished first (a second Ctrl-C ends at once) |

With `--json`, stdout holds one JSON document (`consume`: one for each record) and nothing else;
what is meant for people goes to stderr. For `groups` there is [an operator's page](groups.md).

`sharegroup --install-completion` lets the shell's Tab key complete commands, options, and the names
of topics and groups that the broker has. A broker that does not answer within a second names none.
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
