"""The cases of Kafka's SslPrincipalMapperTest, and names as Java writes them."""

from __future__ import annotations

import ssl

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from sharegroup.broker.authentication.cipher_names import openssl_ciphers
from sharegroup.broker.authentication.distinguished_name import _formatted
from sharegroup.broker.authentication.principal_mapping import PrincipalMapping
from sharegroup.model.errors import ConfigError

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_kafkas_cases(name: str, principal: str) -> None:
    assert PrincipalMapping(RULES).principal(name) == f"User:{principal}"


def test_rules_with_commas_and_slashes() -> None:
    text = r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT"
    assert PrincipalMapping(text).principal(r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz") == (
        r"User:Tkac\, Adam"
    )
    assert PrincipalMapping(r"RULE:^CN=(.*)$/$1\/x/").principal("CN=a") == "User:a/x"
    no_match = PrincipalMapping("RULE:^CN=(.*)$/$1/")
    assert no_match.principal("OU=a") is None
    assert PrincipalMapping("RULE:^CN=(.*)$/$1$2/").principal("CN=a") == "User:a$2"
    assert PrincipalMapping("DEFAULT").principal("CN=a") == "User:CN=a"


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*/$1/",
    ],
)
def test_invalid_rules(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules: "):
        PrincipalMapping(rules)


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def test_names_are_written_as_java_writes_them() -> None:
    written = _formatted(
        name(
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATION_NAME, 'A, "B" + C'),
            (NameOID.EMAIL_ADDRESS, "a@b.c"),
            (NameOID.COMMON_NAME, " #spark "),
        )
    )
    mail = "1.2.840.113549.1.9.1=#1605" + b"a@b.c".hex()
    assert written == f'CN=\\ #spark\\ ,{mail},O=A\\, \\"B\\" \\+ C,C=DE'


def test_java_names_of_ciphers() -> None:
    wanted = [
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_AES_128_GCM_SHA256",
    ]
    converted = openssl_ciphers(wanted)
    assert converted is not None
    assert converted.split(":") == [
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "AES256-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
    ]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(converted)
    assert openssl_ciphers(["TLS_AES_128_GCM_SHA256"]) is None
