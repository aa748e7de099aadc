"""The names of the SASL mechanisms that client and broker speak."""

from __future__ import annotations

from typing import Final

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"

MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
PASSWORDS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)
"""Those that prove a password; the best first."""
