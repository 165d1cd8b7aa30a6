"""A boto3 client as the settings want it: credentials, endpoint, way there, and what it asks."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ProfileNotFound
from botocore.loaders import Loader, create_loader
from botocore.utils import determine_content_length

from singerlake.errors import UsageError
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3 import settings
from singerlake.storage.s3.whole_answers import repeat_cut_answers
from singerlake.version import __version__

_ODD = re.compile(r"[^A-Za-z0-9!#$%&'*+.^_`|~-]")
"""What no name may have in a header."""
AT_ONCE_BYTES = 1 << 20
"""Bodies of up to this go out with their headers, as other SDKs of AWS do it."""


def connect(options: StoreOptions, config: Config) -> tuple[Any, Any]:
    """Make a session and its client; nothing is sent yet.

    Args:
        options: Credentials, region and endpoint; what they leave open comes from the AWS chain.
        config: How requests are made where the options do not say.

    Raises:
        UsageError: The settings, or the AWS configuration, cannot be used.
    """
    settings.check(options)
    try:
        core = botocore.session.Session(profile=options.profile)
        core.register_component("data_loader", _loader(core.get_config_variable("data_path")))
        session = boto3.session.Session(
            botocore_session=core,
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
            aws_session_token=options.session_token,
            profile_name=options.profile,
            region_name=options.region,
        )
        settings.hide(session, options)
        client = session.client(
            "s3",
            endpoint_url=options.endpoint_url,
            config=config.merge(_asked(options)).merge(_names(core)),
            verify=options.ca_bundle,
        )
    except ProfileNotFound:
        profile = options.profile or os.environ.get("AWS_PROFILE", "")
        raise UsageError(
            f"the AWS configuration has no profile {profile!r}: check aws_profile (or "
            "AWS_PROFILE), or add it with aws configure --profile"
        ) from None
    except (BotoCoreError, ValueError, OSError) as error:
        raise _unusable(options, error) from None
    repeat_cut_answers(client)
    client.meta.events.register("before-call.s3", _send_at_once, "singerlake-at-once")
    if asked := _of_each_request(options):

        def add(params: dict[str, Any], model: Any, **_: Any) -> dict[str, Any]:
            known = model.input_shape.members
            return {**{name: value for name, value in asked.items() if name in known}, **params}

        client.meta.events.register("provide-client-params.s3", add, "singerlake-settings")
    return session, client


def _unusable(options: StoreOptions, error: Exception) -> UsageError:
    return UsageError(
        f"the AWS settings cannot be used ({type(error).__name__}): check aws_region "
        f"({options.region!r}), aws_endpoint_url ({options.endpoint_url!r}) and the AWS "
        "configuration files"
    )


def _names(core: Any) -> Config:
    """Return the user agent: made once, while boto3 makes it for each request, twice.

    It takes a tenth of a request's processor time.
    """
    extra = f" {core.user_agent_extra}" if core.user_agent_extra else ""  # boto3 adds it once more
    where = os.environ.get("AWS_EXECUTION_ENV", "")
    agent = core.user_agent().removesuffix(extra)
    agent = agent.replace(f"exec-env/{where}", f"exec-env/{_ODD.sub('-', where)}")
    names = [agent, f"Singerlake/{__version__}"]
    if app := core.get_config_variable("user_agent_appid"):
        names.append(f"app/{_ODD.sub('-', str(app))}")
    return Config(user_agent=" ".join(names))


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """Send a small body with its headers, and not once the service has answered these.

    Asking first costs one more journey there and back, and for what is small it spares nothing.
    """
    size = determine_content_length(params.get("body"))
    if size is not None and size <= AT_ONCE_BYTES:
        params["headers"].pop("Expect", None)


@functools.cache
def _loader(places: str | None) -> Loader:
    """Return boto3's model of S3, read once a process: nothing of a client takes longer.

    Args:
        places: Where else its files may lie, as the AWS configuration says.
    """
    loader = create_loader(places)
    # The one document that is changed once it is read, before others see it.
    loader.load_service_model("s3", "service-2")
    return loader


def _asked(options: StoreOptions) -> Config:
    """Return the settings of how requests are made."""
    given: dict[str, Any] = {
        "connect_timeout": options.connect_timeout,
        "read_timeout": options.read_timeout,
    }
    if options.addressing_style is not None:
        given["s3"] = {"addressing_style": options.addressing_style}
    if options.proxy is not None:
        given["proxies"] = {"http": options.proxy, "https": options.proxy}
    if options.max_attempts is not None:
        given["retries"] = {"mode": "standard", "total_max_attempts": options.max_attempts}
    return Config(**{name: value for name, value in given.items() if value is not None})


def _of_each_request(options: StoreOptions) -> dict[str, Any]:
    """Return what is added to each request that knows it, by boto3's names."""
    asked: dict[str, Any] = {
        "ServerSideEncryption": options.sse,
        "SSEKMSKeyId": options.sse_kms_key_id,
        "ACL": options.acl,
        "RequestPayer": "requester" if options.requester_pays else None,
    }
    if options.sse_customer_key is not None:
        asked["SSECustomerAlgorithm"] = "AES256"
        asked["SSECustomerKey"] = settings.customer_key(options)
        asked["CopySourceSSECustomerAlgorithm"] = "AES256"
        asked["CopySourceSSECustomerKey"] = settings.customer_key(options)
    return {name: value for name, value in asked.items() if value is not None}


def resolved(options: StoreOptions) -> StoreOptions:
    """Find the credentials themselves, for libraries that know less of the AWS chain than boto3.

    Args:
        options: What the settings say.

    Raises:
        UsageError: The settings, or the AWS configuration, cannot be used.
    """
    session, client = connect(options, Config())
    endpoint = options.endpoint_url
    if any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")):
        endpoint = client.meta.endpoint_url
    try:
        found = session.get_credentials()
        keys = None if found is None else found.get_frozen_credentials()
    except Exception as error:  # noqa: BLE001  # of boto3, or of a file or program that it asks
        raise _unusable(options, error) from None
    return replace(
        options,
        access_key_id=keys and keys.access_key,
        secret_access_key=keys and keys.secret_key,
        session_token=keys and keys.token,
        profile=None,
        region=client.meta.region_name,
        endpoint_url=endpoint,
    )
