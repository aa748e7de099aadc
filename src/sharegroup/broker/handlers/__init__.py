"""One file per API: translate the request, ask the core, make durable what must be, answer.

Each holds ``async def <api>(broker, request, context)``, named like its file. An API whose response
has no error field of its own also holds ``failure(request, error)``.
"""
