"""What the answers of Google Cloud Storage and Azure mean, in plain words with the next step.

Data only: ``obstore_errors.py`` is the one place that meets the errors themselves. Nothing here
quotes an error's own text: it holds addresses, and with them a shared access signature.
"""

from __future__ import annotations

from http import HTTPStatus

from singerlake.storage.object_store.vendor import Vendor

MISSING = frozenset({"NoSuchKey", "BlobNotFound"})
"""No such object. Status 404 alone does not say so: a container that is not there has it, and any
web server at a wrong endpoint, which must not look like an empty lake."""

TAKEN = frozenset({"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet"})
"""A condition failed. Azure has the same status for containers that are being deleted, and blobs
that a policy protects."""

NOT_DONE = frozenset({"SlowDown", "ServerBusy", "NotImplemented"})
"""Answers of status 5xx that say for certain that nothing was written."""

_DENIED = "access denied: these credentials need {permissions}"
_CREDENTIALS = {
    "gcs": (
        "no usable credentials: log in (gcloud auth application-default login), set "
        "GOOGLE_APPLICATION_CREDENTIALS or gcs_service_account_path to a service account's key "
        "file, run where the machine has a service account, or set gcs_anonymous for a public "
        "bucket"
    ),
    "azure": (
        "no usable credentials: set azure_storage_account_key or azure_storage_sas_token, the "
        "three azure_client_… of a service principal, AZURE_USE_AZURE_CLI=true after az login, or "
        "azure_anonymous for a public container"
    ),
}
_REFUSED = {
    "gcs": "the credentials are not accepted: log in again, or check the service account's key",
    "azure": (
        "the credentials are not accepted: check that the key, signature or principal is of this "
        "account, whole and not expired, and that this machine's clock is right"
    ),
}
_SLOW = (
    "{name} asks to slow down and did so at every attempt: run it again later, or with fewer "
    "concurrent writers"
)
_UNABLE = "{name} failed with an internal error at every attempt: run it again later"
_NO_CONTAINER = (
    "there is no {container} {given!r}: check the name, the account and the endpoint, or create it"
)
_NOT_IT = "the server there is not {name}: check the endpoint's address"
_PROTECTED = "a policy of the {container} keeps objects from being replaced or deleted: lift it"
_NO_BILLING = "the bucket's project cannot be billed: check its billing account"

_CODES = {
    "NoSuchBucket": _NO_CONTAINER,
    "ContainerNotFound": _NO_CONTAINER,
    "ContainerBeingDeleted": "the container {given!r} is being deleted: use another name, or wait",
    "ContainerDisabled": "the container {given!r} is disabled: ask its administrator",
    "AccountIsDisabled": "the account is disabled: ask its administrator",
    "InvalidBucketName": "{given!r} cannot be a bucket's name",
    "InvalidResourceName": "{given!r} cannot be a container's name",
    "AccessDenied": _DENIED,
    "AuthorizationPermissionMismatch": _DENIED,
    "AuthorizationResourceTypeMismatch": _DENIED,
    "AuthorizationServiceMismatch": _DENIED,
    "InsufficientAccountPermissions": _DENIED,
    "AuthorizationFailure": (
        "access denied: the credentials do not fit the account, lack {permissions}, or the "
        "account's firewall keeps this machine out"
    ),
    "AuthorizationSourceIPMismatch": (
        "access denied: the signature is not for this machine's address: ask for another"
    ),
    "AuthorizationProtocolMismatch": (
        "access denied: the signature is for https:// alone: change the endpoint"
    ),
    "KeyBasedAuthenticationNotPermitted": (
        "the account accepts no keys: use a service principal (azure_client_…), or az login"
    ),
    "PublicAccessNotPermitted": "the account does not allow anonymous access: set credentials",
    "UserProjectMissing": "the bucket requires the requester to pay, which is not supported",
    "UserProjectAccountProblem": _NO_BILLING,
    "AccountProblem": _NO_BILLING,
    "RetentionPolicyNotMet": _PROTECTED,
    "ObjectUnderActiveHold": _PROTECTED,
    "BlobImmutableDueToPolicy": _PROTECTED,
    "LeaseIdMissing": (
        "another client holds a lease on the object: break it, and do not use leases in a lake"
    ),
    "BlobArchived": "the object is archived: rehydrate it first",
    "BlobBeingRehydrated": "the object is being rehydrated: run it again later",
    "EntityTooLarge": "the file is larger than this service accepts: set a smaller file_bytes",
    "RequestBodyTooLarge": "the file is larger than this service accepts: set a smaller file_bytes",
    "KeyTooLongError": "the name is longer than the service accepts: use a shorter prefix",
    "RequestTimeTooSkewed": "this machine's clock is wrong: set it, and run it again",
    "OperationTimedOut": _UNABLE,
    "NotImplemented": "this service does not support a request that a lake needs",
    "404": _NOT_IT,
    "405": _NOT_IT,
    "429": _SLOW,
    "SlowDown": _SLOW,
    "ServerBusy": _SLOW,
}
_KINDS = {
    "Connect": (
        "cannot connect to {endpoint}: check the endpoint's address (http or https), the network, "
        "the proxy (HTTPS_PROXY) and the certificates (SSL_CERT_FILE)"
    ),
    "Timeout": "{endpoint} did not answer in time: run it again later",
}


def for_answer(vendor: Vendor, code: str, status: int, given: str) -> str:
    """Say what an answer means.

    Args:
        vendor: Whose it is.
        code: The service's own code; empty where the answer had none.
        status: The HTTP status.
        given: The container's name.
    """
    words = _CODES.get(code) or _CODES.get(str(status))
    if words is None and status == HTTPStatus.UNAUTHORIZED:
        words = _REFUSED[vendor.extra]
    elif words is None and status == HTTPStatus.FORBIDDEN:
        # What a wrong key, and a signature that has expired, is told.
        words = _REFUSED[vendor.extra] if code == "AuthenticationFailed" else _DENIED
    elif words is None and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        words = _UNABLE
    elif words is None:
        words = "{name} answered with an error" + ("" if code else " ({status})")
    words = words.format(
        name=vendor.name,
        container=vendor.container,
        permissions=vendor.permissions,
        given=given,
        status=status,
    )
    return f"{words} [{code}]" if code else words


def for_failure(kind: str, endpoint: str) -> str:
    """Say what a failure without an answer means.

    Args:
        kind: obstore's word for it.
        endpoint: The address that requests go to.
    """
    words = _KINDS.get(kind, "the connection to {endpoint} was interrupted: run it again")
    return words.format(endpoint=endpoint)


def no_credentials(vendor: Vendor) -> str:
    """Say what to do where a service cannot be told who asks."""
    return _CREDENTIALS[vendor.extra]
