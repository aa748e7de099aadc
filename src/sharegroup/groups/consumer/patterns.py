"""Topics by regular expression, kept so that only the names of new topics are matched.

Matching ten thousand names takes tens of milliseconds, and seconds if an expression is made to be
slow. So :meth:`Matches.steps` does it in steps, between which a caller may do something else. A
decision that has been prepared like this finds the topics at hand.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from sharegroup.groups.topics import TopicsImage
from sharegroup.model import regex as regexes

KEPT_NAMES_MAX: Final = 1_000_000
"""Names of topics kept for all expressions together, some 8 MB."""
KEPT_REGEXES_MAX: Final = 1_000
CHANGES_MAX: Final = 1_000
"""Changes of the topics that are remembered. An expression that was last asked for before them is
matched anew."""


def compile_regex(regex: str) -> Callable[[str], bool]:
    """A function that says whether a topic's whole name matches.

    Raises:
        InvalidRegularExpression: as :func:`sharegroup.model.regex.compile_regex`.
    """
    return regexes.compile_regex(regex, "SubscribedTopicRegex")


class _Change(NamedTuple):
    """Names of topics that were made and deleted."""

    made: frozenset[str]
    gone: frozenset[str]


class _Kept(NamedTuple):
    """The topics that an expression matched, in order; ``change``: how many changes there were."""

    names: tuple[str, ...]
    change: int


class Matches:
    """The topics that expressions match. The expressions asked for least recently are forgotten
    first."""

    def __init__(self) -> None:
        self._topics = TopicsImage()
        self._change = 0
        """The number of changes so far."""
        self._changes: list[_Change] = []
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._names = 0

    def of(self, regex: str, topics: TopicsImage) -> tuple[str, ...]:
        """The topics whose names match, in order.

        Raises:
            InvalidRegularExpression: as :func:`compile_regex`.
        """
        steps = self.steps(regex, topics)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: tuple[str, ...] = end.value
                return found

    def steps(self, regex: str, topics: TopicsImage) -> Generator[None, None, tuple[str, ...]]:
        """A generator that does the work of :meth:`of`, one step for each name that is matched, and
        returns the same. Afterwards :meth:`of` has little to do.

        Raises:
            InvalidRegularExpression: as :func:`compile_regex`.
        """
        self._look_at(topics)
        change = self._change
        kept = self._kept.get(regex)
        if kept is not None and kept.change == change:
            self._kept.move_to_end(regex)
            return kept.names
        changes = [] if kept is None else self._changes[kept.change - change :]
        names: set[str] = set()
        to_match = set(topics.topics)
        if kept is not None and len(changes) == change - kept.change:
            names.update(kept.names)
            to_match.clear()
            for made, gone in changes:
                names -= gone
                to_match = (to_match - gone) | made
        if to_match:
            matches = compile_regex(regex)
            yield
            for name in to_match:
                if matches(name):
                    names.add(name)
                yield
        found = tuple(sorted(names))
        self._keep(regex, _Kept(found, change))
        return found

    def _look_at(self, topics: TopicsImage) -> None:
        if topics is self._topics:
            return
        before, after = self._topics.topics.keys(), topics.topics.keys()
        change = _Change(frozenset(after - before), frozenset(before - after))
        self._topics = topics
        if change.made or change.gone:
            self._change += 1
            self._changes.append(change)
            del self._changes[:-CHANGES_MAX]

    def _keep(self, regex: str, kept: _Kept) -> None:
        old = self._kept.pop(regex, None)
        self._names += len(kept.names) - (len(old.names) if old is not None else 0)
        self._kept[regex] = kept
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT_REGEXES_MAX or self._names > KEPT_NAMES_MAX
        ):
            _, forgotten = self._kept.popitem(last=False)
            self._names -= len(forgotten.names)
