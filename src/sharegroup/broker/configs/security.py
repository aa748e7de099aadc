"""Broker settings of TLS and SASL. Each may be set for one listener, see ``listener_settings``."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import choice, integer, long, names, text
from sharegroup.model.config import ConfigDef, ConfigType
from sharegroup.sasl.mechanisms import MECHANISMS, SCRAM_SHA_256, SCRAM_SHA_512

JAAS: Final = "sasl.jaas.config"
REAUTH: Final = "connections.max.reauth.ms"
USERS_FILE: Final = "sasl.users.file"


def _secret(name: str, doc: str) -> ConfigDef:
    """A setting that is never shown or stored: it cannot be altered while the broker runs."""
    return ConfigDef(name=name, type=ConfigType.PASSWORD, default=None, doc=doc)


def _hidden(name: str, doc: str) -> ConfigDef:
    """A setting that is not shown, as in Kafka, but is no secret."""
    return ConfigDef(name=name, type=ConfigType.PASSWORD, default=None, doc=doc, dynamic=True)


_PEM_NOT_JKS: Final = "Java's own format is not read here (Kafka: JKS)"

TLS_CONFIGS: Final = (
    ConfigDef(
        name="ssl.keystore.type",
        type=ConfigType.STRING,
        default="PEM",
        doc="The format of the key store: PEM or PKCS12. When not set, a file named *.p12 or *.pfx "
        "is PKCS12.",
        departs=_PEM_NOT_JKS,
        dynamic=True,
    ),
    text(
        "ssl.keystore.location",
        None,
        "The file with the private key and the certificate chain of TLS listeners. Files are read "
        "anew on SIGHUP, and when a setting of TLS or SASL is altered.",
        dynamic=True,
    ),
    _secret("ssl.keystore.password", "The password of a PKCS12 key store."),
    _secret(
        "ssl.keystore.key", "The private key as PEM text, with ssl.keystore.certificate.chain."
    ),
    _hidden("ssl.keystore.certificate.chain", "The certificate chain as PEM text."),
    _secret("ssl.key.password", "The password of an encrypted private key in PEM."),
    ConfigDef(
        name="ssl.truststore.type",
        type=ConfigType.STRING,
        default="PEM",
        doc="The format of the trust store: PEM or PKCS12; when not set, as the key store's.",
        departs=_PEM_NOT_JKS,
        dynamic=True,
    ),
    text(
        "ssl.truststore.location",
        None,
        "The file with the certificates of the authorities that sign clients' certificates; those "
        "of the system when not set.",
        dynamic=True,
    ),
    _secret("ssl.truststore.password", "The password of a PKCS12 trust store."),
    _hidden("ssl.truststore.certificates", "The authorities' certificates as PEM text."),
    choice(
        "ssl.client.auth",
        "none",
        ("none", "requested", "required"),
        "Whether clients show a certificate. On a listener that speaks SSL it names the principal; "
        "a client without one is User:ANONYMOUS. A listener that speaks SASL_SSL asks for one only "
        "by listener.name.NAME.ssl.client.auth.",
        dynamic=True,
    ),
    names(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS.",
        choices=("TLSv1.2", "TLSv1.3"),
        dynamic=True,
    ),
    names(
        "ssl.cipher.suites",
        (),
        "The ciphers of TLS 1.2, by Java's or by OpenSSL's names; OpenSSL's choice when not set.",
        dynamic=True,
    ),
    text(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the name in a client's certificate becomes a principal: RULE:PATTERN/REPLACEMENT/ or "
        "with L or U at the end, separated by commas; the first rule that matches wins. DEFAULT "
        "is the whole name, such as User:CN=spark,O=Example.",
    ),
)

SASL_CONFIGS: Final = (
    names(
        "sasl.enabled.mechanisms",
        (SCRAM_SHA_512, SCRAM_SHA_256),
        "The mechanisms that a SASL listener offers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
        "OAUTHBEARER.",
        choices=MECHANISMS,
        departs="there is no Kerberos (Kafka: GSSAPI)",
        dynamic=True,
    ),
    text(
        USERS_FILE,
        None,
        "A file of users for PLAIN and SCRAM, which `sharegroup users create --file` writes: it "
        "has salted hashes, no passwords. SCRAM credentials that kafka-configs or `sharegroup "
        "users` created are looked up first. Read anew on SIGHUP, and when a setting of TLS or "
        "SASL is altered. Not a Kafka setting.",
        dynamic=True,
    ),
    ConfigDef(
        name=JAAS,
        type=ConfigType.PASSWORD,
        default=None,
        doc="Users of PLAIN with their passwords, as for Kafka; to be written as "
        'listener.name.NAME.plain.sasl.jaas.config=…PlainLoginModule required user_NAME="…";',
    ),
    long(
        REAUTH,
        0,
        0,
        "A client must authenticate again within this time, else its connection is closed at its "
        "next request (KIP-368). 0: never, but for tokens, which expire.",
    ),
    integer(
        "connection.failed.authentication.delay.ms",
        100,
        0,
        "How long a failed authentication waits for its answer. It doubles with each further "
        "failure of the same user from the same address, up to 32 times as long, and what comes "
        "from there about this user meanwhile is looked at afterwards.",
        maximum=10_000,
    ),
    integer(
        "connections.authentication.timeout.ms",
        10_000,
        1,
        "How long a client may take for the TLS handshake, and for SASL. Not a Kafka setting.",
        dynamic=True,
    ),
    integer(
        "sasl.server.max.receive.size",
        524_288,
        1,
        "The largest request of a client that is not authenticated, in bytes.",
    ),
    text(
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        "Where the keys are that sign tokens: an https, http or file URL of a JWKS document. The "
        "file is read anew on SIGHUP, both when they are old or lack a key.",
    ),
    long(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        1,
        "How old the keys may be before they are fetched again.",
    ),
    names(
        "sasl.oauthbearer.expected.audience",
        (),
        "A token must be for one of these audiences; any when not set.",
    ),
    text("sasl.oauthbearer.expected.issuer", None, "A token must be from it; any when not set."),
    names(
        "sasl.oauthbearer.expected.scope",
        (),
        "A token must have all of these scopes. Not a Kafka setting.",
    ),
    text("sasl.oauthbearer.scope.claim.name", "scope", "The claim with a token's scopes."),
    text("sasl.oauthbearer.sub.claim.name", "sub", "The claim with a token's principal."),
    integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        0,
        "How far the clocks of the issuer and of this broker may differ.",
    ),
)

SECURITY_CONFIGS: Final = (*TLS_CONFIGS, *SASL_CONFIGS)
