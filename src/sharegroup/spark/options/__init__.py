"""The options of the stream, the sink and the batch read, checked as a whole."""
