"""In which order records are delivered, and to whom: one file for each order.

A :class:`~sharegroup.share.partition.SharePartition` has a window, which knows the states of the
records, and one :class:`Order`, which says which record comes next. :class:`LogOrder` delivers in
the order of the log, :class:`KeyOrder` in the order of each key (``share.ordering=key``),
:class:`ClassedOrder` by class: in turns of tenants (``share.fairness``), or higher priorities first
(``share.priority.header``).

To add an order:

1. Write a class in a file of its own here, with the methods of :class:`Order`. It is made with the
   window and the list of archived records. It changes records by what both orders use: a lock of
   ``window.locks`` to acquire, :func:`sharegroup.share.applying.apply` to acknowledge,
   :func:`sharegroup.share.release.take_back` when locks end.
2. An order that only holds records back or lets some go first (a delay, a priority, fair shares) is
   a *filter*: it has a :class:`LogOrder`, passes most calls on to it, and answers ``next_offset``,
   ``has_room``, ``offers`` and ``take`` itself.
3. Let ``SharePartitions`` in the broker pass the class when it loads a share partition of a group
   with the setting. The broker asks the order's attributes (``needs_keys``), never its class.
4. Write a naive model of the order, as ``tests/share/naive.py`` is of the log's.
"""
