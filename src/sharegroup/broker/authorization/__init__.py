"""Who may do what: the one seam that every request passes (Kafka's interface Authorizer)."""
