"""Requests of share groups: records taken and answered, members, start offsets."""
