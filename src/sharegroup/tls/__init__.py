"""TLS of client and broker: from files, or from PEM text, to contexts of Python's ``ssl``."""
