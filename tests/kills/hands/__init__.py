"""Operators' hands on a share group under load: pause, fork and purge, and kills between them.

``round.py`` plays: a broker, members of two clients, a driver that produces and acts. ``rules.py``
judges by what the members and the driver wrote down, and by what members of the forks were given.
"""
