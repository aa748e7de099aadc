"""Requests of classic and consumer groups: who is in a group?"""
