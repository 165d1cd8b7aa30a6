"""Turns boto3's errors into Singerlake's, and keeps track of lost replies."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProxyConnectionError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError

from singerlake.errors import OutcomeUnknownError, SingerlakeError, StoreError
from singerlake.storage.base import KeyExistsError, KeyMissingError
from singerlake.storage.s3 import error_messages

CONFLICT_TRIES = 5
CONFLICT_PAUSE = 0.1
"""Seconds; doubled at each try."""

_T = TypeVar("_T")
_SENT = (HTTPClientError, BotoConnectionError)
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)

# boto3 retries inside one call. Whether one of those attempts may have written although no
# (good) answer came is known only while they happen; calls are synchronous, hence per thread.
_attempts = threading.local()


class BusyError(KeyExistsError):
    """Another conditional request on the key was under way."""


class BeyondEndError(StoreError):
    """The object ends before the range begins."""


def begin_write() -> None:
    """Forget the attempts of earlier writes of this thread."""
    _attempts.in_doubt = False


def in_doubt() -> bool:
    """Tell whether an attempt since :func:`begin_write` may have written, whatever came back."""
    return bool(getattr(_attempts, "in_doubt", False))


def note_attempt(response: Any = None, caught_exception: Any = None, **_: Any) -> None:
    """Take note of what came of one attempt; to be registered as ``needs-retry.s3``."""
    if response is not None:
        code = response[1].get("Error", {}).get("Code", "")
        doubt = _maybe_done(response[0].status_code, code)
    else:
        doubt = _maybe_sent(caught_exception)
    if doubt:
        _attempts.in_doubt = True


def _maybe_done(status: int, code: str) -> bool:
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and code not in error_messages.NOT_DONE


def _maybe_sent(error: Any) -> bool:
    if isinstance(error, HTTPClientError) and isinstance(error.kwargs.get("error"), ValueError):
        return False  # a header that cannot be written
    if isinstance(error, BotoCoreError) and not isinstance(error, _SENT):
        return False  # of credentials, or of parameters
    # An exception of a library below boto3 may come at any time.
    return not isinstance(error, _NEVER_SENT)


def until_decided(write: Callable[[], _T]) -> _T:
    """Repeat a write that met another conditional request on its key."""
    for attempt in range(1, CONFLICT_TRIES):
        try:
            return write()
        except BusyError:
            # At random, so that two writers do not meet again.
            time.sleep(random.uniform(0, CONFLICT_PAUSE * 2**attempt))  # noqa: S311
    return write()


class ErrorMapper:
    """Errors of requests to one lake.

    Args:
        uri: The lake's.
        bucket: Its bucket.
        endpoint: The address that requests go to.
    """

    def __init__(self, uri: str, bucket: str, endpoint: str) -> None:
        self._uri = uri
        self._bucket = bucket
        self._endpoint = endpoint

    def where(self, key: str) -> str:
        """Return how a person names an object."""
        return f"{self._uri}/{key}"

    @contextmanager
    def map_boto_errors(self, action: str, key: str, write: bool = False) -> Iterator[None]:
        """Turn whatever boto3 and the libraries below it raise into our errors.

        Args:
            action: What is being done, as a verb.
            key: With which object.
            write: Whether a failure may leave it unknown what was written.
        """
        # ``from None``: their text can quote a request's headers, and with them a token.
        try:
            yield
        except ClientError as error:
            raise self._answer_error(error, action, key, write) from None
        except SingerlakeError:
            raise
        except KeyError as error:
            words = f"the answer has no {error}: {self._endpoint} is not S3"
            raise self._error(action, key, words, write) from None
        except Exception as error:  # noqa: BLE001
            # By no list of classes: urllib3's and http.client's come out of boto3 as well.
            words = error_messages.for_failure(type(error), self._endpoint)
            doubt = _maybe_sent(error) or in_doubt()
            raise self._error(action, key, words, write and doubt) from None

    def _answer_error(self, error: Any, action: str, key: str, write: bool) -> Exception:
        answer = error.response
        details = answer.get("Error", {})
        meta = answer.get("ResponseMetadata", {})
        code, status = str(details.get("Code", "")), int(meta.get("HTTPStatusCode", 0))
        if code in error_messages.BUSY:
            return BusyError(f"{self.where(key)} is being written by another process")
        if code in error_messages.CHANGED or status == HTTPStatus.PRECONDITION_FAILED:
            return KeyExistsError(
                f"{self.where(key)} already exists, or was changed by another process process"
            )
        if code in error_messages.MISSING and action in ("read", "replace", "delete", "copy"):
            return KeyMissingError(f"{self.where(key)} does not exist")
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and not write:
            return BeyondEndError(f"{self.where(key)} ends earlier")
        region = meta.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
        region = str(details.get("Region", "") or region)
        message = str(details.get("Message", ""))
        words = error_messages.for_code(code, status, message, self._bucket, region)
        doubt = _maybe_done(status, code) or in_doubt()
        return self._error(action, key, words, write and doubt)

    def _error(self, action: str, key: str, words: str, doubt: bool) -> StoreError:
        if doubt:
            return OutcomeUnknownError(
                f"whether {self.where(key)} was written ({action}) cannot be determined: {words}"
            )
        return StoreError(f"cannot {action} {self.where(key)}: {words}")
