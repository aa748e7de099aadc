"""Members of a share group with order per key (``share.ordering=key``), killed at random.

``round.py`` plays: a broker, twelve members of three clients, kills, stalls and departures.
``rules.py`` judges, by what the members wrote down and were told, by what the broker said of its
record states in between, and by the log ``__share_group_state``, read with librdkafka.
"""
