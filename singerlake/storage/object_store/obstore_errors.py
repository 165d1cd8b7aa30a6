"""Turns obstore's errors into Singerlake's, and repeats requests.

obstore is told to repeat none by itself: whether one of several attempts may have written, though
no good answer came, is known only to who makes them.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from obstore import exceptions

from singerlake.errors import InvalidNameError, OutcomeUnknownError, StoreError
from singerlake.safe_text import redacted
from singerlake.storage.base import KeyExistsError, KeyMissingError
from singerlake.storage.object_store import error_messages
from singerlake.storage.object_store.connection import is_of_obstore
from singerlake.storage.object_store.vendor import Connection

ATTEMPTS = 5
PAUSE = 0.5
"""Seconds; doubled at each attempt. Google takes one write a second of an object."""

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})|\(code: (\d{3})\)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_TOKEN = re.compile(r"TokenRequest|TokenResponse|token request|CredentialProvider|az login")
_MACHINE = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
"""Where a machine of Google or Azure asks who it is; nobody answers there on any other."""
_NOT_THERE = re.compile(r"Bulk delete request failed for key .*\(code: 404\)")
"""Azure's answer to a deletion, which is sent as a batch of one; it has no code of the service."""
_BEYOND_END = re.compile(
    r"Wanted range starting at|status code: 416"
    r'|CONTENT_RANGE header: "bytes \S+/0"'  # so Azurite answers for an empty object
)
_LATER = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)

_CERTAIN = frozenset(
    {
        "AlreadyExistsError",
        "InvalidPathError",
        "NotFoundError",
        "NotImplementedError",
        "NotModifiedError",
        "NotSupportedError",
        "PermissionDeniedError",
        "PreconditionError",
        "UnauthenticatedError",
        "UnknownConfigurationKeyError",
        "ValueError",
    }
)
"""Classes of errors that say for certain that nothing was written."""


class BeyondEndError(StoreError):
    """The object ends before the range begins."""


@dataclass(frozen=True)
class Failure:
    """What obstore says of a request that failed, with nothing of its text.

    Attributes:
        kind: The class of the error.
        status: The HTTP status of the answer; 0 where there was none.
        code: The service's own code in it; empty where there was none.
        broken: obstore's word for how the connection failed; empty where it did not.
        of_token: Whether it was the request for a token that failed.
        of_machine: Whether it was asked of the machine.
        beyond_end: Whether the object ends before the range begins.
    """

    kind: str
    status: int
    code: str
    broken: str
    of_token: bool
    of_machine: bool
    beyond_end: bool

    @property
    def passes(self) -> bool:
        """Whether the same request may do later."""
        if self.of_machine and self.broken:
            return False  # it is none of theirs
        return self.status in _LATER or bool(self.broken)

    @property
    def may_have_written(self) -> bool:
        """Whether the service may have done what it was asked."""
        if self.of_token or self.code in error_messages.NOT_DONE:
            return False
        if self.status:
            return self.status in _LATER and self.status != HTTPStatus.TOO_MANY_REQUESTS
        if self.broken:
            return self.broken != "Connect"
        return self.kind not in _CERTAIN  # a panic, or another error that does not say when


def read(error: BaseException) -> Failure:
    """Take apart what obstore says, which is text."""
    text = str(error)
    status = _STATUS.search(text)
    code, broken = _CODE.search(text), _KIND.search(text)
    number = int(status[1] or status[2]) if status else 0
    return Failure(
        kind=type(error).__name__,
        status=number,
        code=code[1] if code else "BlobNotFound" if _NOT_THERE.search(text) else "",
        broken=broken[1] if broken else "" if number else _broken(error, text),
        of_token=bool(_TOKEN.search(text)) or bool(_MACHINE.search(text)),
        of_machine=bool(_MACHINE.search(text)),
        beyond_end=bool(_BEYOND_END.search(text)),
    )


def _broken(error: BaseException, text: str) -> str:
    """How the connection failed, where obstore has no word for it."""
    return "Body" if "body" in text or isinstance(error, OSError) else ""


class Requests:
    """Requests of one lake, repeated where that helps, and their errors.

    Args:
        uri: The lake's.
        connection: Which way they go.
    """

    def __init__(self, uri: str, connection: Connection) -> None:
        self._uri = uri
        self._connection = connection
        self._endpoint = redacted(connection.endpoint)

    def where(self, key: str) -> str:
        """Return how a person names an object."""
        return f"{self._uri}/{key}"

    def read(self, action: str, key: str, request: Callable[[], _T]) -> _T:
        """Make a request that changes nothing, or that is as good done twice.

        Args:
            action: What is being done, as a verb.
            key: With which object.
            request: It.

        Raises:
            KeyMissingError: There is no such object.
            BeyondEndError: The object ends before the range begins.
            StoreError: The store refused, at every attempt.
        """
        return self._made(action, key, request, write=False)

    def write(self, action: str, key: str, request: Callable[[], _T]) -> _T:
        """Make a request that is decided by a condition.

        Args:
            action: What is being done, as a verb.
            key: With which object.
            request: It.

        Raises:
            KeyExistsError: The condition failed; ``DoubtfulConflictError`` where an attempt
                before, whose answer was lost, may be why.
            OutcomeUnknownError: It may have been done.
            StoreError: The store refused.
        """
        return self._made(action, key, request, write=True)

    def _made(self, action: str, key: str, request: Callable[[], _T], *, write: bool) -> _T:
        doubt = False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return request()
            except BaseException as error:  # its text can quote an address, and so a signature
                if not is_of_obstore(error):
                    raise
                failure = read(error)
            if failure.kind == "ValueError" and not failure.status:
                raise InvalidNameError(f"{key!r} is not a key of a lake")
            if attempt == ATTEMPTS or not failure.passes:
                break
            doubt = doubt or failure.may_have_written
            # At random, so that two writers do not meet again.
            time.sleep(PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1))  # noqa: S311
        raise self._error(failure, action, key, write=write, doubt=doubt)

    def _error(
        self, failure: Failure, action: str, key: str, *, write: bool, doubt: bool
    ) -> Exception:
        where = self.where(key)
        if self._is_conflict(failure) and write:
            kind = DoubtfulConflictError if doubt else KeyExistsError
            return kind(f"{where} already exists, or was changed by another process process")
        if failure.code in error_messages.MISSING and action in ("read", "delete", "copy"):
            return KeyMissingError(f"{where} does not exist")
        if failure.beyond_end and not write:
            return BeyondEndError(f"{where} ends earlier")
        words = self._words(failure)
        if write and (doubt or failure.may_have_written):
            return OutcomeUnknownError(
                f"whether {where} was written ({action}) cannot be determined: {words}"
            )
        return StoreError(f"cannot {action} {where}: {words}")

    @staticmethod
    def _is_conflict(failure: Failure) -> bool:
        if failure.status == HTTPStatus.PRECONDITION_FAILED:
            return True
        taken = failure.kind == exceptions.AlreadyExistsError.__name__
        return taken and (not failure.code or failure.code in error_messages.TAKEN)

    def _words(self, failure: Failure) -> str:
        vendor = self._connection.vendor
        if failure.of_token:
            return error_messages.no_credentials(vendor)
        if failure.status:
            given = self._connection.container
            return error_messages.for_answer(vendor, failure.code, failure.status, given)
        if failure.broken:
            return error_messages.for_failure(failure.broken, self._endpoint)
        return (
            f"obstore failed with {failure.kind}: check the settings that begin with "
            f"{vendor.extra}_, and the endpoint"
        )


class DoubtfulConflictError(KeyExistsError):
    """A condition failed after an attempt that may have been what changed the object."""
