"""Build a release and try it, up to the upload: `make release`."""
