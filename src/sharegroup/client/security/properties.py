"""Security settings by the property names of Java's clients and of librdkafka."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sharegroup.client.security.settings import (
    FIELD_NAMES,
    NO_SECURITY,
    Security,
    check_mechanism,
)
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.login_module import parse_jaas
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN
from sharegroup.tls.stores import PEM, PKCS12, KeyStore, TrustStore, check_type

SecuritySettings = Security | Mapping[str, str] | None
"""The forms in which a client takes its argument ``security``."""

_PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.ca.")

_TEXTS: Final = {
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.oauthbearer.token": "token",
    "sasl.oauthbearer.token.provider": "token_provider",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.client.credentials.client.id": "client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
    "ssl.ca.location": "ca_location",
    "ssl.ca.pem": "ca_text",
    "ssl.truststore.certificates": "ca_text",
    "ssl.certificate.location": "certificate_location",
    "ssl.certificate.pem": "certificate_text",
    "ssl.keystore.certificate.chain": "certificate_text",
    "ssl.key.location": "key_location",
    "ssl.key.pem": "key_text",
    "ssl.keystore.key": "key_text",
}
"""Property → the field that gets its text."""

_SHOWN: Final = {
    "mechanism": "sasl.mechanism",
    "keystore": "ssl.keystore.location",
    "truststore": "ssl.truststore.location",
    "token_endpoint_url": "sasl.oauthbearer.token.endpoint.url",
    "token_endpoint_ca_location": "https.ca.location",
    "token_location": "sasl.oauthbearer.token.endpoint.url",
    "key_password": "ssl.key.password",
    "tls_protocols": "ssl.enabled.protocols",
    "ciphers": "ssl.cipher.suites",
    "extensions": "sasl.oauthbearer.extensions",
    "urlencode_client": "sasl.oauthbearer.header.urlencode",
    **{name: prop for prop, name in reversed(_TEXTS.items())},
}
"""Field → the property that an error names in its place, if the user gave no property for it."""

_SYSTEMS_OWN: Final = ("ssl.ca.location", "probe")
"""How librdkafka writes "the authorities of the system"; here, a missing property means that."""

_WITHOUT_EFFECT: Final = frozenset(
    (
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "security.providers",
    )
)
"""Properties that only Java's clients need: accepted, since files for Java's clients have them."""

_OAUTH_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
_RETRIEVERS: Final = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
_OF_TOKENS: Final = (
    "give sasl.oauthbearer.token.provider, or sasl.oauthbearer.token.endpoint.url with a client's "
    "id and secret"
)
_MSK: Final = (
    "MSK's IAM login works through OAUTHBEARER here: set sasl.mechanism=OAUTHBEARER and "
    "sasl.oauthbearer.token.provider=sharegroup.client.security.aws:msk_token, and "
    "pip install 'sharegroup[aws]'"
)


def as_security(settings: SecuritySettings) -> Security:
    """Settings in any form as a :class:`Security`.

    Raises:
        ConfigError: the settings are wrong; the text is one sentence.
    """
    if settings is None:
        return NO_SECURITY
    if isinstance(settings, Security):
        return settings
    if isinstance(settings, Mapping):
        return parse_security(settings)
    raise ConfigError(
        f"security is {type(settings).__name__}: give a sharegroup.Security or a dict of text"
    )


def is_security_property(name: str) -> bool:
    """Whether this is a name of a property of TLS or SASL, known or not."""
    return name.startswith(_PREFIXES)


def parse_security(properties: Mapping[str, str]) -> Security:
    """The settings of properties, such as ``security.protocol`` and ``sasl.jaas.config``.

    Raises:
        ConfigError: a property is unknown, wrong, missing, or contradicts another one.
    """
    given = _Given()
    for name, value in properties.items():
        _read(given, str(name), _text(name, value))
    _stores(given)
    _scram(given)
    try:
        return Security(**given.fields)
    except ConfigError as error:
        raise ConfigError(given.in_properties(str(error))) from None


def _text(name: object, value: object) -> str:
    """The value of a property. Dicts for confluent-kafka have True, False and numbers, too."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise ConfigError(f"{name} is {type(value).__name__}: give the property as text")


@dataclass(slots=True)
class _Given:
    """The values given: fields, and parts of fields to come; and the property of each."""

    fields: dict[str, Any] = field(default_factory=dict, repr=False)
    origin: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, value: object, by: str) -> None:
        """Keep a value. Raises ConfigError: another property gave the field another value."""
        if name in self.fields and self.fields[name] != value:
            raise ConfigError(f"{self.origin[name]} and {by} contradict each other: leave one out")
        self.fields[name] = value
        self.origin.setdefault(name, by)

    def pop(self, name: str, default: Any = None) -> Any:
        """Take a value out."""
        return self.fields.pop(name, default)

    def in_properties(self, sentence: str) -> str:
        """The sentence with the names of properties instead of fields."""
        return _FIELDS.sub(
            lambda found: self.origin.get(found[0]) or _SHOWN.get(found[0], found[0]), sentence
        )


_FIELDS: Final = re.compile(
    r"\b("
    + "|".join(sorted({*FIELD_NAMES} - {"protocol", "mechanism", "verify"}, key=len, reverse=True))
    + r")\b|(?<=\bwith )mechanism\b|(?<=\bleave )mechanism\b"
)


def _read(given: _Given, name: str, text: str) -> None:
    if name in _WITHOUT_EFFECT:
        return
    if name in _TEXTS:
        blank = not (text if name == "sasl.password" else text.strip())
        if not blank and (name, text) != _SYSTEMS_OWN:
            given.put(_TEXTS[name], text, name)
        return
    reader = _READERS.get(name)
    if reader is not None:
        reader(given, name, text)
    elif name.startswith("sasl.kerberos."):
        check_mechanism("GSSAPI")
    elif name.startswith("sasl.oauthbearer.assertion."):
        raise ConfigError(
            f"{name} is of a grant by assertion, which is not available here: {_OF_TOKENS}"
        )
    elif name.startswith("sasl.oauthbearer.jwks."):
        return  # a broker's
    else:
        near = difflib.get_close_matches(name, {*_READERS, *_TEXTS}, n=1)
        guess = f": did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{name} is no security property that is known here{guess}")


def _protocol(given: _Given, name: str, text: str) -> None:
    given.put("protocol", text.strip().upper(), name)


def _mechanism(given: _Given, name: str, text: str) -> None:
    if text.strip() == "AWS_MSK_IAM":
        raise ConfigError(_MSK)
    check_mechanism(text.strip())
    given.put("mechanism", text.strip(), name)


def _jaas(given: _Given, name: str, text: str) -> None:
    module = parse_jaas(text)
    options = dict(module.options)
    if module.name == "Krb5LoginModule":
        check_mechanism("GSSAPI")
    if module.name == "IAMLoginModule":
        raise ConfigError(_MSK)
    names = {"username": "username", "password": "password"}
    if module.name == "PlainLoginModule":
        given.put("mechanism", PLAIN, name)
    elif module.name == "ScramLoginModule":
        given.put("scram", True, name)
    elif module.name == "OAuthBearerLoginModule":
        given.put("mechanism", OAUTHBEARER, name)
        names = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope"}
        _extensions_of_jaas(given, name, options)
    else:
        raise ConfigError(
            f"the login module {module.name!r} of {name} is none of PlainLoginModule, "
            "ScramLoginModule, OAuthBearerLoginModule"
        )
    for option, value in options.items():
        if option.startswith("unsecured"):
            raise ConfigError(f"{option} in {name} makes tokens that are not signed: {_OF_TOKENS}")
        if option not in names:
            raise ConfigError(f"{module.name} in {name} has no option {option!r} here")
        given.put(names[option], value, name)


def _extensions_of_jaas(given: _Given, name: str, options: dict[str, str]) -> None:
    found = {
        key.removeprefix("extension_"): options.pop(key)
        for key in list(options)
        if key.startswith("extension_")
    }
    if found:
        given.put("extensions", found, name)


def _extensions(given: _Given, name: str, text: str) -> None:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(sign and key.strip() for key, sign, _ in pairs):
        raise ConfigError(f"{name} is not name=value,name=value")
    given.put("extensions", {key.strip(): value.strip() for key, _, value in pairs}, name)


def _method(_: _Given, name: str, text: str) -> None:
    if text.strip().lower() not in ("oidc", "default"):
        raise ConfigError(f"{name} is {text!r}: write oidc, or leave it out")


def _librdkafka_config(_: _Given, name: str, __: str) -> None:
    raise ConfigError(f"{name} makes tokens that are not signed: {_OF_TOKENS}")


def _endpoint(given: _Given, name: str, text: str) -> None:
    url = text.strip()
    if url.startswith("file:"):
        given.put("token_location", unquote(urlsplit(url).path), name)
    else:
        given.put("token_endpoint_url", url, name)


def _handler(_: _Given, name: str, text: str) -> None:
    kind = text.strip().rpartition(".")[2]
    if kind == "IAMClientCallbackHandler":
        raise ConfigError(_MSK)
    if kind != _OAUTH_HANDLER:
        raise ConfigError(
            f"{name} names a Java class: give a Python function in sasl.oauthbearer.token.provider "
            "instead"
        )


def _retriever(_: _Given, name: str, text: str) -> None:
    kind = text.strip().rpartition(".")[2]
    if kind not in _RETRIEVERS:
        raise ConfigError(f"{name} is none of {', '.join(_RETRIEVERS)}: {_OF_TOKENS}")


def _grant(_: _Given, name: str, text: str) -> None:
    if text.strip() != "client_credentials":
        raise ConfigError(f"{name} is none but client_credentials here: {_OF_TOKENS}")


def _unsecured(given: _Given, name: str, text: str) -> None:
    if _is_true(name, text):
        _librdkafka_config(given, name, text)


def _urlencode(given: _Given, name: str, text: str) -> None:
    given.put("urlencode_client", _is_true(name, text), name)


def _ca_text_of_endpoint(_: _Given, name: str, __: str) -> None:
    raise ConfigError(f"{name} is not available here: give the file in https.ca.location")


def _check_host(given: _Given, name: str, text: str) -> None:
    word = text.strip().lower()
    if word not in ("", "none", "https"):
        raise ConfigError(f"{name} is {text!r}: write https, or nothing for no check of the host")
    given.put("check_host", word == "https", name)


def _verify(given: _Given, name: str, text: str) -> None:
    given.put("verify", _is_true(name, text), name)


def _is_true(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{name} is {text!r}: write true or false")
    return word == "true"


def _protocols(given: _Given, name: str, text: str) -> None:
    wanted = tuple(part.strip() for part in text.split(",") if part.strip())
    for one in wanted:
        if one not in ("TLSv1.2", "TLSv1.3"):
            raise ConfigError(f"{name} has {one!r}: write TLSv1.2, TLSv1.3, or both")
    if wanted:
        given.put("tls_protocols", wanted, name)


def _ciphers(given: _Given, name: str, text: str) -> None:
    if text.strip():
        given.put("ciphers", ":".join(part.strip() for part in text.split(",")), name)


def _keep(to: str) -> Callable[[_Given, str, str], None]:
    """A reader that keeps a property's text under this name, most often for :func:`_stores`."""

    def read(given: _Given, name: str, text: str) -> None:
        if text.strip():
            given.put(to, text, name)

    return read


_READERS: Final[Mapping[str, Callable[[_Given, str, str], None]]] = {
    "security.protocol": _protocol,
    "sasl.mechanism": _mechanism,
    "sasl.mechanisms": _mechanism,
    "sasl.jaas.config": _jaas,
    "sasl.login.callback.handler.class": _handler,
    "sasl.client.callback.handler.class": _handler,
    "sasl.oauthbearer.token.endpoint.url": _endpoint,
    "sasl.oauthbearer.extensions": _extensions,
    "sasl.oauthbearer.method": _method,
    "sasl.oauthbearer.config": _librdkafka_config,
    "sasl.oauthbearer.header.urlencode": _urlencode,
    "sasl.oauthbearer.jwt.retriever.class": _retriever,
    "sasl.oauthbearer.grant.type": _grant,
    "enable.sasl.oauthbearer.unsecure.jwt": _unsecured,
    "https.ca.location": _keep("token_endpoint_ca_location"),
    "https.ca.pem": _ca_text_of_endpoint,
    "ssl.endpoint.identification.algorithm": _check_host,
    "enable.ssl.certificate.verification": _verify,
    "ssl.enabled.protocols": _protocols,
    "ssl.cipher.suites": _ciphers,
    "ssl.key.password": _keep("key_password"),
    "ssl.keystore.location": _keep("keystore location"),
    "ssl.keystore.type": _keep("keystore type"),
    "ssl.keystore.password": _keep("keystore password"),
    "ssl.truststore.location": _keep("truststore location"),
    "ssl.truststore.type": _keep("truststore type"),
    "ssl.truststore.password": _keep("truststore password"),
}


def _stores(given: _Given) -> None:
    """Put the locations, types and passwords of stores together: a key store, a trust store."""
    kind = _type_of(given, "keystore")
    location, password = given.pop("keystore location"), given.pop("keystore password")
    if location:
        key_password = given.pop("key_password")
        if password and kind == PEM:
            raise ConfigError(
                "ssl.keystore.password does not go with a PEM file: the password of an encrypted "
                "key is ssl.key.password"
            )
        store = KeyStore(type=kind, location=location, password=password, key_password=key_password)
        given.put("keystore", store, "ssl.keystore.location")
    elif password:
        raise ConfigError("ssl.keystore.password is set without ssl.keystore.location")
    kind = _type_of(given, "truststore")
    location, password = given.pop("truststore location"), given.pop("truststore password")
    if location:
        if password and kind == PEM:
            raise ConfigError("ssl.truststore.password does not go with a PEM file: leave it out")
        trust = TrustStore(type=kind, location=location, password=password)
        given.put("truststore", trust, "ssl.truststore.location")
    elif password:
        raise ConfigError("ssl.truststore.password is set without ssl.truststore.location")


def _type_of(given: _Given, store: str) -> str:
    """The store's type: as its property says, or else as the file's name says."""
    name = f"ssl.{store}.type"
    said: str | None = given.pop(f"{store} type")
    location = given.fields.get(f"{store} location")
    if said is not None:
        return check_type(name, said.strip())
    if location is None:
        return PEM
    suffix = location.rpartition(".")[2].lower()
    kind = {"p12": PKCS12, "pfx": PKCS12, "jks": "JKS"}.get(suffix)
    if kind is None and suffix not in ("pem", "crt", "cer"):
        raise ConfigError(f"ssl.{store}.location needs {name}=PEM or {name}=PKCS12")
    return check_type(name, kind or PEM)


def _scram(given: _Given) -> None:
    """Check that the mechanism fits, if ``sasl.jaas.config`` names the login module of SCRAM."""
    if not given.pop("scram", False):
        return
    mechanism = given.fields.get("mechanism")
    if mechanism is None:
        raise ConfigError(
            "ScramLoginModule needs sasl.mechanism=SCRAM-SHA-256 or sasl.mechanism=SCRAM-SHA-512"
        )
    if not mechanism.startswith("SCRAM-"):
        raise ConfigError(
            f"{given.origin['mechanism']} and sasl.jaas.config contradict each other: the login "
            f"module is ScramLoginModule, the mechanism {mechanism}"
        )
