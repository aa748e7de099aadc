"""Requests about committed offsets: how far has a group come?"""
