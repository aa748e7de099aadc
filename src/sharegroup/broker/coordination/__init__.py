"""Coordinators: deterministic machines, each kept in one partition of an internal topic.

Reading order: ``log`` and ``machine`` (the two protocols) → ``runtime`` (decide, write, wait
until durable, load again, shorten, deadlines) → one coordinator, such as
``share_group_coordinator``. A new coordinator is one more machine, and a file with its requests.
"""
