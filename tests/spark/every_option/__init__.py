"""Every option of docs/spark-options.md, given to real Spark by a program as users start it: one
process and one session per version of PySpark, with a broker of its own.
"""
