"""The client's state machines, without sockets: bytes, messages and times go in, messages and
results come out.
"""
