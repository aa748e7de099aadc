"""Membership: which members a share group has and which partitions each member is given (KIP-932,
KIP-848 epochs).

Delivery of records is in ``sharegroup.share``, durable delivery state in
``sharegroup.share_state``; this package imports neither. Read ``share.py`` first (what a
coordinator does), then ``group.py`` (what it remembers), ``assignor.py``, ``config.py``.
"""
