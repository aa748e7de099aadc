"""The driver's side of a stream: acquires, remembers, settles."""
