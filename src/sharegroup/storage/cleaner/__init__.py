"""The log cleaner: which log is next, and what stays of it."""
