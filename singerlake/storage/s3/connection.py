"""A boto3 client of the credentials and the endpoint that the settings name."""

from __future__ import annotations

import os
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ProfileNotFound

from singerlake.errors import UsageError
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3 import settings


def connect(options: StoreOptions, config: Config) -> tuple[Any, Any]:
    """Make a session and its client; nothing is sent yet.

    Args:
        options: Credentials, region and endpoint; what they leave open comes from the AWS chain.
        config: How requests are made.

    Raises:
        UsageError: The settings, or the AWS configuration, cannot be used.
    """
    settings.check(options)
    try:
        session = boto3.session.Session(
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
            aws_session_token=options.session_token,
            profile_name=options.profile,
            region_name=options.region,
        )
        settings.hide(session, options)
        return session, session.client("s3", endpoint_url=options.endpoint_url, config=config)
    except ProfileNotFound:
        profile = options.profile or os.environ.get("AWS_PROFILE", "")
        raise UsageError(
            f"the AWS configuration has no profile {profile!r}: check aws_profile (or "
            "AWS_PROFILE), or add it with aws configure --profile"
        ) from None
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            f"the AWS settings cannot be used ({type(error).__name__}): check aws_region "
            f"({options.region!r}), aws_endpoint_url ({options.endpoint_url!r}) and the AWS "
            "configuration files"
        ) from None
