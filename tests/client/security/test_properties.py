"""Properties of Java's clients and of librdkafka, and what they come to."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from sharegroup import ConfigError, Producer, Security
from sharegroup.client.security.properties import parse_security
from sharegroup.tls.stores import PKCS12, KeyStore, TrustStore

SECRET = "s3cr3t-c4n4ry"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
IN_CLEAR = {"security.protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, Security()),
        ({"security.protocol": "plaintext"}, Security()),
        ({"security.protocol": "SSL"}, Security(protocol="SSL")),
        ({"security.protocol": "SSL", "ssl.ca.location": "probe"}, Security(protocol="SSL")),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN_MODULE} username="k" password="{SECRET}";',
            },
            Security(protocol="SASL_SSL", mechanism="PLAIN", username="k", password=SECRET),
        ),
        (
            {
                **IN_CLEAR,
                "sasl.jaas.config": f"{PLAIN_MODULE}  username='k'\npassword='a\"b\\'c' ;",
            },
            Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="k", password="a\"b'c"),
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM_MODULE} username="k" password=word;',
            },
            Security(
                protocol="SASL_PLAINTEXT",
                mechanism="SCRAM-SHA-512",
                username="k",
                password="word",
            ),
        ),
        (
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "k",
                "sasl.password": SECRET,
                "ssl.ca.location": "/ca.pem",
                "enable.ssl.certificate.verification": "false",
            },
            Security(
                protocol="SASL_SSL",
                mechanism="SCRAM-SHA-256",
                username="k",
                password=SECRET,
                ca_location="/ca.pem",
                verify=False,
            ),
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer"
                ".OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.jaas.config": f'{OAUTH_MODULE} clientId="id" clientSecret="{SECRET}" '
                'scope="kafka" extension_logicalCluster="lkc-1";',
                "sasl.login.connect.timeout.ms": "15000",
            },
            Security(
                protocol="SASL_SSL",
                mechanism="OAUTHBEARER",
                token_endpoint_url="https://idp.example/token",
                client_id="id",
                client_secret=SECRET,
                scope="kafka",
                extensions={"logicalCluster": "lkc-1"},
            ),
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=p",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
            },
            Security(
                protocol="SASL_SSL",
                mechanism="OAUTHBEARER",
                token_endpoint_url="https://idp.example/token",
                client_id="id",
                client_secret=SECRET,
                extensions={"logicalCluster": "lkc-1", "identityPoolId": "p"},
            ),
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.oauthbearer.client.credentials.client.id": "id",
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
                "sasl.oauthbearer.scope": "kafka",
            },
            Security(
                protocol="SASL_PLAINTEXT",
                mechanism="OAUTHBEARER",
                token_endpoint_url="https://idp.example/token",
                client_id="id",
                client_secret=SECRET,
                scope="kafka",
            ),
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security"
                ".oauthbearer.ClientCredentialsJwtRetriever",
                "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security"
                ".oauthbearer.ClientJwtValidator",
                "sasl.oauthbearer.client.credentials.client.id": "id",
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
                "sasl.oauthbearer.header.urlencode": "true",
                "sasl.oauthbearer.scope.claim.name": "scp",
                "sasl.oauthbearer.sub.claim.name": "sub",
                "sasl.oauthbearer.expected.audience": "kafka",
                "sasl.oauthbearer.jwks.endpoint.url": "https://idp.example/keys",
                "sasl.oauthbearer.grant.type": "client_credentials",
                "enable.sasl.oauthbearer.unsecure.jwt": "false",
            },
            Security(
                protocol="SASL_PLAINTEXT",
                mechanism="OAUTHBEARER",
                token_endpoint_url="https://idp.example/token",
                client_id="id",
                client_secret=SECRET,
                urlencode_client=True,
            ),
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "file:run/my%20token",
            },
            Security(
                protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token_location="run/my token"
            ),
        ),
        (
            {**IN_CLEAR, "sasl.mechanism": "PLAIN", "sasl.username": "k", "sasl.password": "  "},
            Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="k", password="  "),
        ),
        (
            {
                "security.protocol": "SSL",
                "enable.ssl.certificate.verification": False,
                "sasl.login.connect.timeout.ms": 15_000,
                "ssl.secure.random.implementation": "SHA1PRNG",
            },
            Security(protocol="SSL", verify=False),
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
            },
            Security(
                protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token_location="/run/token"
            ),
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
                "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
                "ssl.key.password": SECRET,
                "ssl.endpoint.identification.algorithm": "",
                "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
            },
            Security(
                protocol="SSL",
                ca_text="-----BEGIN CERTIFICATE-----",
                certificate_text="-----BEGIN CERTIFICATE-----",
                key_text="-----BEGIN PRIVATE KEY-----",
                key_password=SECRET,
                check_host=False,
                tls_protocols=("TLSv1.3", "TLSv1.2"),
            ),
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.location": "/trust.p12",
                "ssl.truststore.password": SECRET,
                "ssl.keystore.location": "/key",
                "ssl.keystore.type": "pkcs12",
                "ssl.keystore.password": SECRET,
                "ssl.cipher.suites": "A,B",
            },
            Security(
                protocol="SSL",
                truststore=TrustStore(type=PKCS12, location="/trust.p12", password=SECRET),
                keystore=KeyStore(type=PKCS12, location="/key", password=SECRET),
                ciphers="A:B",
            ),
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "/ca.pem",
                "ssl.certificate.location": "/client.pem",
                "ssl.key.location": "/client.key",
                "ssl.key.password": SECRET,
                "ssl.endpoint.identification.algorithm": "none",
            },
            Security(
                protocol="SSL",
                ca_location="/ca.pem",
                certificate_location="/client.pem",
                key_location="/client.key",
                key_password=SECRET,
                check_host=False,
            ),
        ),
    ],
)
def test_properties_come_to(properties: Mapping[str, str], expected: Security) -> None:
    found = parse_security(properties)
    assert found == expected
    assert SECRET not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"security.protocol": "TLS"}, "'TLS' is none of PLAINTEXT, SSL"),
        ({"security.protocl": "SSL"}, "did you mean security.protocol"),
        ({"sasl.username": "k"}, "PLAINTEXT does not go with sasl.username"),
        ({"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "go with sasl.mechanism: set"),
        ({"security.protocol": "SSL", "sasl.password": SECRET}, "SSL does not go with sasl.pass"),
        ({**IN_CLEAR, "ssl.ca.location": "/ca.pem"}, "does not go with ssl.ca.location"),
        (IN_CLEAR, "needs a SASL mechanism"),
        (
            {**IN_CLEAR, "sasl.mechanism": "PLAIN", "sasl.username": "k"},
            "PLAIN needs sasl.username and sasl.password",
        ),
        (
            {**IN_CLEAR, "sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-512"},
            "sasl.mechanism and sasl.mechanisms contradict each other",
        ),
        (
            {**IN_CLEAR, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{PLAIN_MODULE};"},
            "sasl.mechanism and sasl.jaas.config contradict each other",
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{SCRAM_MODULE} username="k" password="{SECRET}";',
            },
            "contradict each other: the login module is ScramLoginModule, the mechanism PLAIN",
        ),
        ({**IN_CLEAR, "sasl.jaas.config": f"{SCRAM_MODULE};"}, "ScramLoginModule needs sasl.mech"),
        (
            {
                **IN_CLEAR,
                "sasl.password": "other",
                "sasl.jaas.config": f'{PLAIN_MODULE} username="k" password="{SECRET}";',
            },
            "sasl.password and sasl.jaas.config contradict each other",
        ),
        ({**IN_CLEAR, "sasl.jaas.config": f"{PLAIN_MODULE} password={SECRET}"}, "semicolon"),
        ({**IN_CLEAR, "sasl.jaas.config": f'{PLAIN_MODULE} password="{SECRET};'}, "login module"),
        ({**IN_CLEAR, "sasl.jaas.config": f"{PLAIN_MODULE} debug=true;"}, "no option 'debug'"),
        ({**IN_CLEAR, "sasl.jaas.config": f"x.OtherModule required p={SECRET};"}, "'OtherModule'"),
        ({**IN_CLEAR, "sasl.mechanism": "GSSAPI"}, "GSSAPI .Kerberos. is not available here"),
        ({**IN_CLEAR, "sasl.kerberos.service.name": "kafka"}, "GSSAPI"),
        (
            {
                **IN_CLEAR,
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;",
            },
            "GSSAPI",
        ),
        ({**IN_CLEAR, "sasl.mechanism": "DIGEST-MD5"}, "'DIGEST-MD5' is none of"),
        ({**IN_CLEAR, "sasl.mechanism": "AWS_MSK_IAM"}, "sharegroup.client.security.aws:msk_token"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam"
                ".IAMClientCallbackHandler",
            },
            r"sharegroup\[aws\]",
        ),
        ({**IN_CLEAR, "sasl.mechanism": "OAUTHBEARER"}, "needs sasl.oauthbearer.token.provider"),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token": SECRET,
                "sasl.oauthbearer.token.provider": "a:b",
            },
            "sasl.oauthbearer.token and sasl.oauthbearer.token.provider are both set",
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example",
            },
            "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "/a.jks",
                "ssl.keystore.password": SECRET,
            },
            "keytool -importkeystore",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "/key.pem",
                "ssl.keystore.password": SECRET,
            },
            "encrypted key is ssl.key.password",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/trust"},
            "ssl.truststore.location needs ssl.truststore.type=PEM",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "/ca.pem",
                "ssl.truststore.certificates": "PEM",
            },
            "ssl.ca.location and ssl.truststore.certificates are both set",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "/ca.pem",
                "ssl.truststore.location": "/trust.pem",
            },
            "ssl.ca.location and ssl.truststore.location are both set",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "/key.pem",
                "ssl.keystore.key": SECRET,
            },
            "are both set",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "/key.pem"}, "without its certificate"),
        ({"security.protocol": "SSL", "ssl.truststore.password": SECRET}, "without ssl.truststore"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "http"},
            "write https, or nothing",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "TLSv1.2, TLSv1.3"),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "no"},
            "true or false",
        ),
        ({"security.protocol": None}, "security.protocol is NoneType: give the property as text"),
        ({1: "x"}, "1 is no security property"),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.location": "/ca.pem",
                "ssl.truststore.password": SECRET,
            },
            "ssl.truststore.password does not go with a PEM file",
        ),
        (
            {
                **IN_CLEAR,
                "sasl.mechanism": "PLAIN",
                "sasl.username": "k",
                "sasl.password": f"{SECRET}\udcff",
            },
            "^sasl.password has a character that cannot be sent: write it in UTF-8$",
        ),
        (
            {
                **IN_CLEAR,
                "sasl.jaas.config": f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="{SECRET}";',
            },
            "unsecuredLoginStringClaim_sub in sasl.jaas.config makes tokens that are not signed",
        ),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "tokens that are not signed"),
        ({"sasl.oauthbearer.jwt.retriever.class": "a.JwtBearerJwtRetriever"}, "is none of Default"),
        ({"sasl.oauthbearer.assertion.algorithm": "RS256"}, "grant by assertion"),
        ({"sasl.oauthbearer.grant.type": "urn:ietf:jwt"}, "none but client_credentials"),
        ({"https.ca.pem": "-----BEGIN"}, "in https.ca.location"),
        *(
            (
                {
                    **IN_CLEAR,
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.token.endpoint.url": url,
                    "sasl.oauthbearer.client.id": "id",
                    "sasl.oauthbearer.client.secret": SECRET,
                },
                "^sasl.oauthbearer.token.endpoint.url is no https URL$",
            )
            for url in ("idp.example/token", "https:///token", "https://h:x/", "https://h/a b")
        ),
        ({"sasl.oauthbearer.config": f"principal={SECRET}"}, "tokens that are not signed"),
    ],
)
def test_wrong_properties_are_a_sentence(properties: Mapping[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        parse_security(properties)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_clients_refuse_at_construction() -> None:
    with pytest.raises(ConfigError, match="needs a SASL mechanism"):
        Producer(security=IN_CLEAR)
    with pytest.raises(ConfigError, match=r"give a sharegroup\.Security"):
        Producer(security=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"no function 'nowhere\.at:all'"):
        Producer(
            security=Security(
                protocol="SASL_SSL", mechanism="OAUTHBEARER", token_provider="nowhere.at:all"
            )
        )
