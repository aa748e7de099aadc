"""Classic consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The coordinator knows the members and counts generations. One of the members, the leader, assigns
the partitions. Read ``groups.py`` first (what a coordinator does), then ``rebalance.py`` (from one
generation to the next), ``group.py`` and ``member.py`` (what it remembers).
"""
