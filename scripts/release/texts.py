"""What the texts of the repository say of the release, and the notes for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

UNRELEASED: Final = "Unreleased"
_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)
_NEWEST = re.compile(r"^The newest release is \*\*(?P<version>[^*]+)\*\*\.$", re.MULTILINE)
_ENTRY = re.compile(r"^## (?P<title>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)


class Texts(NamedTuple):
    """What is said where.

    Attributes:
        version: that of the package.
        newest: the newest release, by docs/versions.md; '': the page does not say.
        entries: title -> text of the entries of CHANGELOG.md, the newest first.
    """

    version: str
    newest: str
    entries: dict[str, str]

    @classmethod
    def of(cls, root: Path) -> Texts:
        """Those of a repository. Raises ValueError if the package has no version."""
        source = _VERSION.search((root / "src" / "sharegroup" / "__init__.py").read_text())
        if source is None:
            raise ValueError("src/sharegroup/__init__.py has no __version__")
        page = _NEWEST.search((root / "docs" / "versions.md").read_text())
        changelog = (root / "CHANGELOG.md").read_text()
        entries = {found["title"]: found["text"].strip() for found in _ENTRY.finditer(changelog)}
        return cls(source["version"], page["version"] if page else "", entries)

    def disagreements(self) -> list[str]:
        """Why this cannot be released, a sentence each."""
        top = next(iter(self.entries), "")
        found = []
        if top != self.version:
            found.append(
                f"the package is {self.version}, and the top entry of CHANGELOG.md is {top!r}"
            )
        if self.newest != self.version:
            found.append(
                f"the package is {self.version}, and docs/versions.md names {self.newest!r}"
            )
        return found

    def notes(self) -> str:
        """The notes of the release: its entry, or what would be in it if it were made now."""
        title = UNRELEASED if UNRELEASED in self.entries else self.version
        return f"# sharegroup {self.version}\n\n{self.entries[title]}\n"
