"""How much the console takes and shows."""

from __future__ import annotations

from typing import Final

VIEWERS_MAX: Final = 1_000
"""Event streams at a time."""
SESSIONS_MAX: Final = 500
"""People who are logged in at a time."""
SESSION_S: Final = 12 * 3600
"""After so long one must log in again."""
SESSION_IDLE_S: Final = 30 * 60
"""After so long without a request or an open page, too."""
LOGINS_MAX: Final = 1_000
LOGIN_S: Final = 600
"""So many logins at an OpenID provider may be under way, each for so many seconds."""
GUESSES_MAX: Final = 5
GUESSES_S: Final = 60
"""So many wrong passwords may come from one host in so many seconds."""
BODY_BYTES_MAX: Final = 65_536
"""Bytes of the JSON that an act carries."""
TEXT_MAX: Final = 4_096
"""Characters of a text in it."""
PARTITIONS_MAX: Final = 10_000
"""Partitions of a topic that the page makes."""
GROUPS_NAMED: Final = 10
"""Groups that a sentence names."""
PLACES_MAX: Final = 20
"""Partitions that a sentence names."""

LOOK_QUEUES: Final = 100
"""So many queues a look asks about."""
LOOK_SETTINGS: Final = 5
"""Of so many queues a look asks for settings: whether they are paused, and their dead letters'
topic."""
LOOK_LETTERS: Final = 100
"""The dead letters of so many queues are counted in a look."""
FIRST_S: Final = 0.3
"""So long a look asks about queues that nothing is known of yet."""
LIST_S: Final = 20.0
"""With more queues than LOOK_QUEUES, new ones are looked for this often."""
ENDS_MAX: Final = 1_000
"""So many ends of partitions are asked for in each look, if queues have no more."""

SHOWN_BYTES_MAX: Final = 65_536
"""More of a key, a value or a header is not sent to the page, which says so."""
INDENTED_MAX: Final = 8 * SHOWN_BYTES_MAX
"""Characters of JSON that is indented for the page; longer, it is shown as it is."""
LINE_TEXT_MAX: Final = 200
"""Characters of a key and a value in the list of dead letters."""
RANGES_MAX: Final = 2_000
"""Ranges of records that one partition shows; the page says if there are more."""
GIVEN_UP_MAX: Final = 20
"""Ranges of records that were given up lately, of one queue."""
HELD_MAX: Final = 200
"""Ranges of held records that a queue shows, those that are held for longest."""
QUERIES_MAX: Final = 500
"""Spark's queries that the page shows, those that have told of themselves last."""
REPORTS_MAX: Final = 10_000
"""Their reports that are read at the first look, the newest ones."""
QUERY_GROUPS_MAX: Final = 200
"""Groups with members that are looked through for queries."""
LETTERS_MAX: Final = 1_000
"""Dead letters that one page shows, the oldest ones; the page says if there are more."""
