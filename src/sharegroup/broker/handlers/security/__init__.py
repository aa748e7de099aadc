"""Requests about logins, users and ACLs."""
