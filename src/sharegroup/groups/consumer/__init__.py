"""Groups of the consumer protocol (KIP-848): who is in a group, and who owns which partition.

Read ``group.py`` (the state), ``reconciliation.py`` (how a partition changes hands), then
``groups.py`` (what a heartbeat does).
"""
