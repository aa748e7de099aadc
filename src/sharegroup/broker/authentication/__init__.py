"""Who a client is: passwords, SCRAM credentials, tokens, names in certificates."""
