"""Check the records of ``__share_group_state`` and ``__consumer_offsets`` in a data folder that no
broker has open, and report how damage affects share groups.

Reading order: ``records`` → ``durable_state`` → ``affected``.
"""

from __future__ import annotations
