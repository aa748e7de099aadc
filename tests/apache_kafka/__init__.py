"""Apache Kafka from Maven Central: foreign client, judge of our files, peer in benchmarks.

`jars` fetches it once, `broker` runs one node, `tools` runs its command-line tools.
"""
