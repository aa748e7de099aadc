"""The parts of ``examples/flights.py``: the workload (``produce``, ``pool_worker``,
``spark_gate``), starting and killing processes (``processes``, ``watch``), and the check, which
shares only the data with them (``dataset``, ``journal``, ``check``, ``report``, ``picture``).
"""
