"""The dead letters of a share group, for operators: look at them, redrive them, purge them."""
