"""Bytes ⇄ typed messages: framing, the codec, message classes, record-batch headers, our extension
fields."""
