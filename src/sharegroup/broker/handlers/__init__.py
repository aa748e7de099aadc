"""One file per API: translate the request, ask the core, make changes durable, answer.

Each file holds ``async def <api>(parts, request, context)``, named like the file. If the response
has no top-level error field, the file also holds ``failure(request, error)``.
"""
