"""Share groups (KIP-932): which members a group has and which partitions each member is given.

Read ``groups.py`` (what a coordinator does), then ``group.py`` (what it remembers).
"""
