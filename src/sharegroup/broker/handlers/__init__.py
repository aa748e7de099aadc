"""One file per API: translate the request, ask the core, make changes durable, answer.

Each file holds ``async def <api>(parts, request, context)``, named like the file. A file also holds
``failure(request, error)`` if ``wire.refusal`` does not make the response that refuses a request.
"""
