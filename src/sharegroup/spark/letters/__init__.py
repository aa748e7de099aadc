"""The dead letters of a share group as rows, and rows of them redriven."""
