"""Requests that read and write records: which batches go in and out?"""
