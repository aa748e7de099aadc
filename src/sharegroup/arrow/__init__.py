"""Record batches to Arrow at C speed, in one code path: for Spark's executors and the client.

``records`` finds the fields in fetched bytes, ``rows`` makes Arrow record batches of these fields,
``schema`` says which columns there are. Needs NumPy and PyArrow
(``pip install 'sharegroup[arrow]'``).
"""
