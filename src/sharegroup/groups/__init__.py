"""Groups: which members a group has and which partitions each member is given (KIP-932, KIP-848
epochs).

``share`` has share groups, ``consumer`` consumer groups, ``classic`` groups of the classic
protocol. What share groups and consumer groups have in common is here: ``modern_group.py``,
``change.py``, ``pacing.py``. Delivery of records is in ``sharegroup.share``, durable delivery state
in ``sharegroup.share_state``; this package imports neither.
"""
