"""What becomes of a batch's records when the batch ends."""
