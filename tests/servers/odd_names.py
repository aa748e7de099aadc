"""Names that a group, a member (up to 36 characters) or a client may have, and that trip whoever
prints or stores them.
"""

from __future__ import annotations

from typing import Final

ODD: Final = {
    "quotes": "q\"u'o",
    "backslash": "back\\slash\\n",
    "line break": "line\n2026-01-01 00:00:00,000 INFO x",
    "carriage return": "x\rsharegroup: forged",
    "tab": "tab\there",
    "parent": "../x",
    "dots": "..",
    "slash": "/etc/a",
    "other letters": "Ünïcode-東京-e\u0301",
    "braces": "{}{0}{group}",
    "markup": "[bold]x[/bold]",
    "end of markup": "[/]",
    "colour": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;title\x07",
    "one-byte escape": "\x9b31m",
    "percent": "%s%d%(x)s",
    "comma": "a,b",
    "spaces": " a ",
    "no spaces": "a",
    "option": "--yes",
    "direction": "\u202etrick\u2028",
    "shell": "\\$(touch pwned)`touch pwned`",
    "formula": "=1+1",
    "nul": "\0nul",
    "dollars": "$x_{$",
}
"""What is odd → the name. Names that differ in spaces only are there, too."""
