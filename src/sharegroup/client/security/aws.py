"""Tokens for Amazon MSK's IAM login, by Amazon's own signer: ``sharegroup[aws]``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sharegroup.model.errors import ConfigError, SaslAuthenticationFailed


def msk_token() -> tuple[str, float]:
    """A token signed with the credentials that boto3 finds (variables, profile, role of the
    machine), for the region that boto3 finds; and when the token expires, in seconds since 1970.
    Give this function as ``token_provider``, with the mechanism OAUTHBEARER. For another region or
    role, write a function of your own around ``MSKAuthTokenProvider``.

    Raises:
        ConfigError: ``sharegroup[aws]`` is not installed, or no region is set.
        SaslAuthenticationFailed: no credentials were found, or they cannot be used.
    """
    try:
        boto3: Any = import_module("boto3")
        signer: Any = import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"MSK's IAM login needs {error.name}, which is not installed: "
            "pip install 'sharegroup[aws]'"
        ) from None
    region = boto3.session.Session().region_name
    if not region:
        raise ConfigError("no AWS region is set: set AWS_REGION")
    try:
        token, expires_ms = signer.generate_auth_token(region)
    except Exception as error:  # noqa: BLE001  whatever boto3 raises
        raise SaslAuthenticationFailed(
            f"no token for MSK could be signed: {type(error).__name__}; see the AWS credentials"
        ) from None
    return token, expires_ms / 1000
