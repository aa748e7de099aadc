"""The asyncio shell: connections, dispatch, request handlers, waiting fetches."""
