"""Checks and repairs a data folder that no broker has open (``sharegroup fsck``).

Reading order: ``findings`` → ``index_check`` → ``segment_check`` → ``partition_check`` →
``small_files`` → ``facts`` → ``folder_check`` → ``repair`` → ``folder_repair``. A check is
read-only and creates no file. The code that decodes the records of groups is in ``broker.checkup``.
"""

from __future__ import annotations
