"""Clients and tools that others wrote, at work on our broker as a real process.

`SHAREGROUP_TEST_BROKER=kafka` points the same tests at Apache Kafka itself: what fails there is
the test's fault, what fails only on ours is ours.
"""
