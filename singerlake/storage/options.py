"""How a store is reached: credentials, region, endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from singerlake.errors import UsageError

_PREFIX = "aws_"
ENVIRONMENT = "SINGERLAKE_"
"""What the variables begin with by which commands and programs are told settings."""


@dataclass(frozen=True)
class StoreOptions:
    """How to reach a store. Secrets never show in its ``repr``.

    Attributes:
        access_key_id: AWS access key; None uses boto3's usual chain.
        secret_access_key: The secret to it.
        session_token: For temporary credentials.
        profile: A profile of the AWS configuration.
        region: The bucket's region.
        endpoint_url: Another S3-compatible service.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None


_FIELDS = {f"{_PREFIX}{one.name}": one for one in fields(StoreOptions)}
SETTINGS = tuple(_FIELDS)
"""The settings' names, as plugins have them."""
SECRETS = frozenset(name for name, one in _FIELDS.items() if not one.repr)


def from_settings(settings: Mapping[str, object]) -> StoreOptions:
    """Collect how to reach a store from settings, as plugins have them.

    An empty one counts as none: Meltano passes unset ones so. Others are passed over.

    Args:
        settings: Values by name, or texts as variables of the environment have them.
    """
    given = {name: settings[name] for name in SETTINGS if settings.get(name) not in (None, "")}
    return StoreOptions(**{_FIELDS[name].name: value for name, value in given.items()})  # type: ignore[arg-type]


def from_environment(prefix: str = ENVIRONMENT) -> StoreOptions:
    """Collect it from variables such as ``SINGERLAKE_AWS_REGION``.

    Args:
        prefix: What their names begin with.
    """
    return from_settings({name: os.environ.get(f"{prefix}{name.upper()}", "") for name in SETTINGS})


def of_an_end(end: str, pairs: Mapping[str, str]) -> StoreOptions:
    """Collect it for one of two places that a command is told of.

    Args:
        end: ``FROM`` or ``TO``. Where nothing is said of this end, what is said of all counts.
        pairs: What the command line says of it.

    Raises:
        UsageError: There is no such setting, or it is a secret, which others see in a command
            line.
    """
    prefix = f"{ENVIRONMENT}{end}_"
    for name in pairs:
        if name in SECRETS:
            raise UsageError(
                f"{name} is a secret, which others could see on the command line: set "
                f"{prefix}{name.upper()} in the environment"
            )
        if name not in SETTINGS:
            known = ", ".join(one for one in SETTINGS if one not in SECRETS)
            raise UsageError(f"there is no setting {name!r} of a store: there are {known}")
    own = {name: os.environ.get(f"{prefix}{name.upper()}", "") for name in SETTINGS}
    own.update(pairs)
    return from_settings(own) if any(own.values()) else from_environment()
