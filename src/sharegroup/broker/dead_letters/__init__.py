"""Dead letters: what becomes of records that failed for good (KIP-1191).

The share partition's leader notes such records as *dead* in the record of its change, in one write
with their archival. So a record is given up only together with its claim to a dead letter.
:mod:`sharegroup.broker.dead_letters.writer` then writes the letters, and forgets a dead record only
when its letter is durable. If the broker dies in between, the letter is written twice: topic,
partition, offset, group and failure time in the headers tell that it is the same. Apache Kafka 4.4
gives a record up in any case: at once if its topic may not have letters, else after five attempts.
"""
