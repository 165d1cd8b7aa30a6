"""How a store is reached: credentials, region, endpoint."""

from __future__ import annotations

from dataclasses import dataclass, field


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
