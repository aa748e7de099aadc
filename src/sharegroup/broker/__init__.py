"""The asyncio shell: sockets, dispatch, request handlers, waiting fetches, and the core machines'
durable homes."""
