"""Settings of the broker and of topics, as data, with Kafka's names, bounds and messages.

``broker.py`` reads ``server.properties`` and ``-o key=value``; ``topic.py`` derives a topic's
settings from the broker's; ``node.py``, ``access.py``, ``log.py`` and ``share.py`` are the tables;
``foreign.py`` lists Kafka's names that mean nothing here. The settings of share groups are in
``sharegroup.groups.config``.
"""
