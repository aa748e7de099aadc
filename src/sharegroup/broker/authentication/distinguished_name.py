"""The name in a certificate, as Java writes it (class X500Principal, RFC 2253)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that RFC 2253 has keywords for. Java writes all others as numbers, with their
value in hexadecimal."""
_ESCAPED: Final = ',+"\\<>;'


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER: the last part of its name first, as
    ``CN=spark,OU=Data,O=Example``.

    Raises:
        ValueError: the certificate cannot be read.
    """
    from cryptography.x509 import load_der_x509_certificate

    return _formatted(load_der_x509_certificate(certificate).subject)


def _formatted(name: Name) -> str:
    parts = ["+".join(map(_attribute, part)) for part in reversed(name.rdns)]
    return ",".join(parts)


def _attribute(attribute: NameAttribute[Any]) -> str:
    number = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(number)
    if keyword is None:
        return f"{number}=#{_der(attribute).hex()}"
    value = attribute.value
    return f"{keyword}={_escaped(value if isinstance(value, str) else value.decode('latin-1'))}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _ESCAPED else char for char in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text


def _der(attribute: NameAttribute[Any]) -> bytes:
    encodings = {"BMPString": "utf-16-be", "UniversalString": "utf-32-be", "T61String": "latin-1"}
    kind = attribute._type
    value = attribute.value
    data = value if isinstance(value, bytes) else value.encode(encodings.get(kind.name, "utf-8"))
    size = len(data)
    length = size.to_bytes(max(1, (size.bit_length() + 7) // 8), "big")
    head = length if size < 128 else bytes((0x80 | len(length),)) + length
    return bytes((kind.value,)) + head + data
