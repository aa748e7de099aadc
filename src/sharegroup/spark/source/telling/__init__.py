"""What a running query tells its user."""
