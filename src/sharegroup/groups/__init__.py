"""Membership: which members a share group has and which partitions each is given (KIP-932, KIP-848
epochs).

Delivery of records is ``sharegroup.share``, durable delivery state ``sharegroup.share_state``;
neither is known here. Read ``share.py`` first (what a coordinator does), then ``group.py`` (what
it remembers), ``assignor.py``, ``config.py``.
"""
