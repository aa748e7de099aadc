"""What the broker looks like now: the data of describe requests, metrics, ``sharegroup.testing``
and consoles.

:class:`~sharegroup.broker.read_model.read_model.ReadModel` has one part for each kind of thing:
``topics``, ``share_groups``, ``groups``, ``transactions``, ``quotas``, ``connections``. Reading
changes nothing. A view is a snapshot, of one step of the event loop.
"""
