"""Apache Kafka from Maven Central: foreign client, judge of our files, peer in benchmarks.

`jars` fetches it once, `broker` runs one node, `tools` runs its command-line tools, `program` our
own Java. `archive` makes its start quick, and `cache` keeps what is made once per machine.
"""
