"""A line of sasl.jaas.config that logs a client in is read the same way by a broker's listener."""

from __future__ import annotations

import pytest

from sharegroup.broker.configs.listener_settings import ListenerSettings
from sharegroup.broker.configs.properties import parse_properties
from sharegroup.broker.configs.security import JAAS
from sharegroup.client.security.properties import parse_security
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.jaas import PLAIN_MODULE, jaas_users

NAME = "listener.name.a.plain.sasl.jaas.config"
MODULE = PLAIN_MODULE


def by_client(line: str) -> str:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line}
    return parse_security(given).password or ""


def by_broker(line: str) -> str:
    """The password of the user ``u``, out of a file of settings."""
    in_file = line.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    texts = parse_properties(f"{NAME}={in_file}\n")
    settings = ListenerSettings(texts, "A")
    return jaas_users(settings.name_of(JAAS, "PLAIN"), settings.text(JAAS, "PLAIN"))["u"]


@pytest.mark.parametrize(
    ("line", "password"),
    [
        ('MODULE required NAME="u" KEY="p";', "p"),
        ("MODULE required NAME='u' KEY='p' ;", "p"),
        ("MODULE required NAME=u KEY=p;", "p"),
        ("MODULE Requisite 'NAME' = u\t\"KEY\"\n=\r\np\n;\n", "p"),
        ("\n  MODULE\nrequired\nNAME=u\nKEY=p;\n\n", "p"),
        ('MODULE required NAME=u KEY="a=b";', "a=b"),
        ('MODULE required NAME=u KEY="=;=";', "=;="),
        ('MODULE required NAME=u KEY=" two words ";', " two words "),
        (r'MODULE required NAME=u KEY="a\"b\\c\'d";', "a\"b\\c'd"),
        (r'MODULE required NAME=u KEY="\101\tb\q";', "A\tbq"),
        (r"MODULE required NAME=u KEY='it\'s';", "it's"),
        ("MODULE required NAME=u KEY='say \"x\"';", 'say "x"'),
        ('MODULE required NAME=u KEY="a // b";  // why', "a // b"),
        ("MODULE required /* who */ NAME=u KEY=p; /* end */", "p"),
        ('MODULE required NAME=u KEY="one" KEY="two";', "two"),
        ('MODULE required NAME=u KEY="пароль";', "пароль"),
        ("kafkashaded.MODULE required NAME=u KEY=p;", "p"),
        ("PlainLoginModule required NAME=u KEY=p;", "p"),
    ],
)
def test_the_password_is_the_same(line: str, password: str) -> None:
    line = line.replace("MODULE", MODULE)
    at_client = line.replace("NAME", "username").replace("KEY", "password")
    assert by_client(at_client) == password
    assert by_broker(line.replace("NAME", "username").replace("KEY", "user_u")) == password


@pytest.mark.parametrize(
    "line",
    [
        "MODULE required KEY=p",
        "MODULE KEY=p;",
        "MODULE required KEY=p;;",
        "MODULE required KEY=p; MODULE required KEY=p;",
        "MODULE required KEY=a=b;",
        "MODULE required KEY=;",
        "MODULE required KEY p;",
        'MODULE required KEY="p;',
        "'MODULE' required KEY=p;",
        "MODULE perhaps KEY=p;",
        "x.OtherModule required KEY=p;",
    ],
)
def test_what_one_refuses_the_other_refuses(line: str) -> None:
    line = line.replace("MODULE", MODULE)
    with pytest.raises(ConfigError):
        by_client(line.replace("KEY", "username=u password"))
    with pytest.raises(ConfigError):
        by_broker(line.replace("KEY", "user_u"))
