"""Check a data folder that no broker has open, and repair it (``sharegroup fsck``).

Reading order: ``findings`` → ``index_check`` → ``segment_check`` → ``partition_check`` →
``small_files`` → ``facts`` → ``folder_check`` → ``repair`` → ``folder_repair``. A check writes
nothing, and opens no file that is not there. What decodes the records of groups is in
``broker.checkup``.
"""

from __future__ import annotations
