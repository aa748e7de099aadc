"""Bytes from anybody, against everything that reads them: `make fuzz`."""
