"""The parts of ``examples/flights.py``: the workload (``produce``, ``pool_worker``,
``spark_gate``), the broker and its fate (``processes``, ``watch``), and the judge, which
shares nothing with them but the data (``dataset``, ``journal``, ``check``, ``report``,
``picture``).
"""
