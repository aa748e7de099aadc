"""What the driver holds: records acquired, renewed, claimed and answered."""
