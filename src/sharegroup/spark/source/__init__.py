"""The driver's side of a stream: acquires records, keeps track of them, settles batches."""
