"""The asyncio shell: sockets, dispatch, request handlers, waiting fetches, and coordinators, which
keep the core's machines durable."""
