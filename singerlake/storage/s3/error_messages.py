"""What S3's error codes and boto3's failures mean, in plain words with the next step.

Data only: ``s3.py`` is the one place that meets the errors themselves. Nothing here quotes
an error's own text except S3's short message for a code that is not listed.
"""

from __future__ import annotations

import re

CHANGED = frozenset({"PreconditionFailed"})
"""A condition failed."""

BUSY = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""Another request on the same key was under way; asked again, the condition is decided."""

MISSING = frozenset({"NoSuchKey"})
"""No such object. Status 404 alone does not say so: ``NoSuchBucket`` has it, and any web
server at a wrong endpoint, which must not look like an empty lake."""

NOT_DONE = frozenset({"SlowDown", "NotImplemented", "501"})
"""Answers of status 5xx that say for certain that nothing was written."""

_REGION = (
    "the bucket lies in another region{region}: set aws_region (or AWS_REGION) to the bucket's own"
)
_EXPIRED = (
    "the temporary credentials have expired: renew them (for example with aws sso login, or a "
    "fresh aws_session_token) and run it again"
)
_DENIED = (
    "access denied: these credentials need s3:GetObject, s3:PutObject, s3:DeleteObject and "
    "s3:AbortMultipartUpload on the lake's objects, and s3:ListBucket on the bucket (without "
    "which S3 also reports missing objects as denied)"
)
_SLOW = "S3 asks to slow down and did so at every attempt: run it again later"
_UNABLE = "S3 failed with an internal error at every attempt: run it again later"
_OLD_SERVICE = "this service does not support a request that a lake needs (conditional writes)"

_NOT_S3 = "the server there is not S3: check the endpoint's address"

_CODES = {
    "NoSuchBucket": "there is no bucket {bucket!r}: check the name and the endpoint, or create it",
    "AccessDenied": _DENIED,
    "AllAccessDisabled": _DENIED,
    "Forbidden": _DENIED,
    "403": _DENIED,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": "S3 does not accept the session token: check aws_session_token",
    "InvalidAccessKeyId": (
        "S3 does not know the access key: check aws_access_key_id, the profile, and that it "
        "belongs to this endpoint"
    ),
    "SignatureDoesNotMatch": (
        "the secret does not fit the access key: check aws_secret_access_key, without spaces "
        "or line breaks around it"
    ),
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "301": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "RequestTimeTooSkewed": "this machine's clock is wrong: set it, and run it again",
    "InvalidBucketName": "{bucket!r} cannot be a bucket's name",
    "KeyTooLongError": "the key is longer than S3 accepts: use a shorter prefix for the lake",
    "EntityTooLarge": "the file is larger than this service accepts: set a smaller file_bytes",
    "InvalidObjectState": "the object is archived: restore it from Glacier first",
    "NoSuchUpload": (
        "the unfinished upload was removed in the meantime (by a lifecycle rule?): run it again"
    ),
    "QuotaExceeded": "the bucket's quota is used up: free some space and run it again",
    "XMinioStorageFull": "the service's disk is full: free some space and run it again",
    "SlowDown": _SLOW,
    "RequestTimeout": "the connection was too slow for S3: run it again",
    "ServiceUnavailable": _UNABLE,
    "InternalError": _UNABLE,
    "500": (  # boto3 makes this of a page of a web server, too
        "S3 failed with an internal error, or the server there is not S3: check the endpoint, or "
        "run it again later"
    ),
    "502": _UNABLE,
    "503": _UNABLE,
    "504": _UNABLE,
    "404": _NOT_S3,
    "405": _NOT_S3,
    "NotImplemented": _OLD_SERVICE,
    "501": _OLD_SERVICE,
}

_CREDENTIALS = (
    "no usable AWS credentials: set aws_access_key_id and aws_secret_access_key, set "
    "aws_profile, or log in (aws sso login)"
)
# By class name, along the class's parents: boto3 versions differ in which classes they have.
_FAILURES = {
    "NoCredentialsError": _CREDENTIALS,
    "PartialCredentialsError": _CREDENTIALS,
    "CredentialRetrievalError": _CREDENTIALS,
    "TokenRetrievalError": _CREDENTIALS,
    "MetadataRetrievalError": _CREDENTIALS,
    "RefreshWithMFAUnsupportedError": _CREDENTIALS,
    "SSOError": _CREDENTIALS,
    "LoginError": _CREDENTIALS,
    "ConnectTimeoutError": (
        "no connection to {endpoint} in time: check the network, proxy, firewall and endpoint"
    ),
    "EndpointConnectionError": (
        "cannot connect to {endpoint}: check the endpoint's address, the region and the network"
    ),
    "ProxyConnectionError": "cannot connect to the proxy: check HTTPS_PROXY and NO_PROXY",
    "SSLError": (
        "the encrypted connection to {endpoint} failed: check http or https in the endpoint, "
        "and set AWS_CA_BUNDLE if the service has a certificate of its own"
    ),
    "ReadTimeoutError": "{endpoint} did not answer in time: run it again later",
    "ConnectionClosedError": "{endpoint} closed the connection without an answer: run it again",
    "ResponseStreamingError": "the connection broke in the middle of an answer: run it again",
    "IncompleteReadError": "the connection broke in the middle of an answer: run it again",
    "FlexibleChecksumError": "the answer does not match its checksum: run it again",
    "ResponseParserError": "the answer of {endpoint} is not an S3 answer: check the endpoint",
    "HTTPClientError": (
        "the request could not be sent: check that no credential holds a space or line break, "
        "and the proxy's settings"
    ),
}


def for_code(code: str, status: int, message: str, bucket: str, region: str) -> str:
    """Say what an error reply of S3 means.

    Args:
        code: S3's error code; the status where the answer had no body.
        status: The HTTP status.
        message: S3's own message, used for codes that are not known here.
        bucket: The lake's bucket.
        region: The bucket's region, where the answer tells it.
    """
    words = _CODES.get(code) or (_DENIED if code.startswith("KMS.") else _CODES.get(str(status)))
    if words is None:
        # A server's text may be a page of HTML: a line of it is enough.
        line = re.sub(r"\s+", " ", message)[:200]
        return f"S3 answered {code or 'an error'} ({status}): {line}"
    words = words.format(bucket=bucket, region=f" ({region})" if region else "")
    return words if code == str(status) else f"{words} [{code}]"


def for_failure(kind: type[BaseException], endpoint: str) -> str:
    """Say what a failure without a reply means.

    The error's own text is never used: it can quote a request's headers, and with them a
    session token.
    """
    for parent in kind.__mro__:
        if parent.__name__ in _FAILURES:
            return _FAILURES[parent.__name__].format(endpoint=endpoint)
    if any(parent.__name__ == "BotoCoreError" for parent in kind.__mro__):
        return f"boto3 failed with {kind.__name__}; `aws s3 ls` on the lake's prefix may say more"
    return f"the connection to {endpoint} failed ({kind.__name__}): run it again"
