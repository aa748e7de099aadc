"""Why a connection did not come about, in one sentence: the name, TCP, or TLS and its reason."""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Final

from sharegroup.model.errors import KafkaError, NetworkException, TlsFailed

# X509_V_ERR_… of OpenSSL.
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_SELF_SIGNED: Final = 18
_SELF_SIGNED_IN_CHAIN: Final = 19
_UNKNOWN_ISSUER: Final = (2, 7, 20, 21)
_WRONG_NAME: Final = (62, 64)

_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_NO_COMMON: Final = (
    "NO_PROTOCOLS_AVAILABLE",
    "NO_CIPHERS_AVAILABLE",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "SSL/TLS_ALERT_HANDSHAKE_FAILURE",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY",
)


def failure(address: str, error: OSError, *, encrypted: bool) -> KafkaError:
    """The error to raise.

    Args:
        address: ``host:port``.
        encrypted: the connection was to use TLS.

    Returns:
        NetworkException: to connect may work later. TlsFailed: it will not, with these settings.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"TLS with {address} failed: {_certificate(error)}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return NetworkException(closed_in_handshake(address))
    if isinstance(error, ssl.SSLError):
        return TlsFailed(f"TLS with {address} failed: {_reason(error)}")
    if isinstance(error, socket.gaierror):
        host = address.rpartition(":")[0]
        return NetworkException(f"the name {host} cannot be resolved: {error.strerror or error}")
    if encrypted and isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return NetworkException(closed_in_handshake(address))
    return NetworkException(f"{address} cannot be reached: {_in_words(error)}")


def refused_later(address: str, error: BaseException | None) -> TlsFailed | None:
    """The error for a connection that ended after the TLS handshake and before the broker's first
    answer: with TLS 1.3, a broker refuses a client's certificate at this time. None: TLS is not the
    reason.
    """
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return TlsFailed(f"TLS with {address} failed: {_reason(error)}")
    return None


def _in_words(error: OSError) -> str:
    """The system's words. asyncio has texts of its own, and one error for many addresses."""
    numbers = [error.errno] if error.errno else map(int, _NUMBERS.findall(str(error)))
    words = dict.fromkeys(os.strerror(number) for number in numbers)
    return "; ".join(words) or error.strerror or str(error)


def closed_in_handshake(address: str) -> str:
    """The sentence for a broker that closes the connection during the TLS handshake."""
    return (
        f"{address} closed the connection during the TLS handshake: if it is a port without TLS, "
        "set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )


def _certificate(error: ssl.SSLCertVerificationError) -> str:
    """What is wrong with the broker's certificate."""
    code, text = error.verify_code, error.verify_message.rstrip(".")
    if code == _EXPIRED:
        return "the broker's certificate, or one that it is signed with, has expired"
    if code == _NOT_YET_VALID:
        return "the broker's certificate is not valid yet: compare the clocks"
    if code in (_SELF_SIGNED, _SELF_SIGNED_IN_CHAIN, *_UNKNOWN_ISSUER):
        return (
            f"the broker's certificate is signed by an unknown authority ({text}): give that "
            "authority's certificate in ssl.truststore.location or ssl.ca.location"
        )
    if code in _WRONG_NAME:
        return (
            f"the broker's certificate is for another host ({text}): connect by a name that is in "
            "it; ssl.endpoint.identification.algorithm= (empty) turns the check off"
        )
    return f"the broker's certificate is not accepted: {text}"


def _reason(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    words = reason.replace("_", " ").lower() or str(error)
    if reason in _NOT_TLS:
        return (
            "the broker's answer is not TLS; if it is a port without TLS, set security.protocol to "
            "PLAINTEXT or SASL_PLAINTEXT"
        )
    if "CERTIFICATE" in reason or reason.endswith("UNKNOWN_CA"):
        return (
            f"the broker does not accept this client's certificate, or asks for one ({words}): see "
            "ssl.keystore.location or ssl.certificate.location"
        )
    if reason in _NO_COMMON:
        return f"broker and client have no TLS version or cipher in common ({words})"
    return words
