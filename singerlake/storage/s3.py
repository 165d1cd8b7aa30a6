"""A lake below a prefix of an S3 bucket, or of a service that speaks S3.

Creation is PutObject with ``If-None-Match: *``, replacement PutObject with ``If-Match``.
Large files go up in parts, with the condition on CompleteMultipartUpload. Files are staged
on the local disk, so that nothing is in the bucket before they are whole.
"""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProfileNotFound,
    ProxyConnectionError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from singerlake.errors import InvalidNameError, OutcomeUnknownError, StoreError, UsageError
from singerlake.format.names import STAGING
from singerlake.storage import StoreOptions, s3_settings, s3_words
from singerlake.storage.base import (
    KeyExistsError,
    KeyMissingError,
    Leftover,
    Listed,
    Staged,
    Store,
    StoredObject,
)
from singerlake.storage.s3_staged import S3Staged

PART_BYTES = 16 * 2**20
"""Files below this go up in one request, others in parts of at least this."""

MAX_PARTS = 10_000
PARALLEL_PARTS = 4
READ_TRIES = 3
CONFLICT_TRIES = 5
CONFLICT_PAUSE = 0.1
"""Seconds; doubled at each try."""

_T = TypeVar("_T")
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)

# boto3 retries inside one call. Whether one of those attempts may have written although no
# (good) answer came is known only while they happen; calls are synchronous, hence per thread.
_attempts = threading.local()


class _BusyError(KeyExistsError):
    """Another conditional request on the key was under way."""


class _BeyondEndError(StoreError):
    """The object ends before the range begins."""


def _note_attempt(response: Any = None, caught_exception: Any = None, **_: Any) -> None:
    if response is not None:
        code = response[1].get("Error", {}).get("Code", "")
        in_doubt = _maybe_done(response[0].status_code, code)
    else:
        in_doubt = _maybe_sent(caught_exception)
    if in_doubt:
        _attempts.in_doubt = True


def _maybe_done(status: int, code: str) -> bool:
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and code not in s3_words.NOT_DONE


def _maybe_sent(error: Any) -> bool:
    if isinstance(error, HTTPClientError) and isinstance(error.kwargs.get("error"), ValueError):
        return False  # a header that cannot be written
    # Everything else that boto3 raises (credentials, parameters) comes before sending.
    sent = (HTTPClientError, BotoConnectionError, ResponseParserError)
    return isinstance(error, sent) and not isinstance(error, _NEVER_SENT)


def _config(options: StoreOptions) -> Config:
    # A service named by the environment needs the same care as one named in the settings.
    environment = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    other_service = options.endpoint_url or any(os.environ.get(name) for name in environment)
    more: dict[str, Any] = {}
    if other_service:
        # Such services are seldom reachable as bucket.host, and many refuse the checksum
        # trailers that boto3 sends by default since 1.36.
        more = {
            "s3": {"addressing_style": "path"},
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
    return Config(
        # The default ("legacy") does not retry all throttling answers. Five attempts with
        # backoff ride out the usual SlowDown of a fresh prefix, and end within a minute.
        retries={"mode": "standard", "total_max_attempts": 5},
        # The default of 60 s to connect makes a wrong endpoint or a firewall look like a hang.
        connect_timeout=10,
        # The silence allowed between two pieces of an answer, not the whole transfer's time.
        read_timeout=60,
        # The default of 10 would make threads that upload parts or read blocks reconnect.
        max_pool_connections=32,
        tcp_keepalive=True,
        **more,
    )


def _client(options: StoreOptions) -> Any:
    s3_settings.check(options)
    try:
        session = boto3.session.Session(
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
            aws_session_token=options.session_token,
            profile_name=options.profile,
            region_name=options.region,
        )
        client = session.client("s3", endpoint_url=options.endpoint_url, config=_config(options))
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
    client.meta.events.register("needs-retry.s3", _note_attempt, "singerlake-attempts")
    return client


def _until_decided(write: Callable[[], _T]) -> _T:
    """Repeat a write that met another conditional request on its key."""
    for attempt in range(1, CONFLICT_TRIES):
        try:
            return write()
        except _BusyError:
            # At random, so that two writers do not meet again.
            time.sleep(random.uniform(0, CONFLICT_PAUSE * 2**attempt))  # noqa: S311
    return write()


@functools.lru_cache(maxsize=4)
def _shared_client(options: StoreOptions, _pid: int) -> Any:
    return _client(options)


def _rebuild(uri: str, options: StoreOptions, keeps_conditions: bool | None) -> S3Store:
    # One client a process, not a Spark task: making one takes 0.1 s. The process id, because
    # connections must not be shared across a fork.
    store = S3Store(uri, options, _shared_client(options, os.getpid()))
    store.keeps_conditions = keeps_conditions
    return store


class S3Store(Store):
    """A bucket, or what lies below a prefix of one. Made by :meth:`open`."""

    def __init__(self, uri: str, options: StoreOptions, client: Any) -> None:
        self._bucket, prefix = s3_settings.split(uri)
        self._base = f"{prefix}/" if prefix else ""
        self._options = options
        self._client = client
        self.keeps_conditions = None  # some services that speak S3 ignore them
        self.uri = f"s3://{self._bucket}/{self._base}".rstrip("/")

    @classmethod
    def open(cls, uri: str, options: StoreOptions) -> S3Store:
        """Open a lake; nothing is sent yet.

        Args:
            uri: ``s3://bucket`` or ``s3://bucket/prefix``, taken as it is: nothing is decoded.
            options: Credentials, region and endpoint.

        Raises:
            UsageError: The URI or the options cannot be used.
        """
        s3_settings.split(uri)
        return cls(uri, options, _client(options))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.uri, self._options, self.keeps_conditions)

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r})"

    def get(self, key: str) -> StoredObject:
        data, etag, _ = self._read(key)
        return StoredObject(data, etag)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        # S3 cannot say an empty range, and a key that is missing must be noticed all the same.
        end = offset + max(length, 1) - 1
        try:
            data, _, is_part = self._read(key, Range=f"bytes={offset}-{end}")
        except _BeyondEndError:
            return b""
        if not is_part:  # a service that ignores ranges sends the whole object
            data = data[offset:]
        return data[: max(length, 0)]

    def put_if_absent(self, key: str, data: bytes) -> str:
        # Where boto3 repeats a request whose answer was lost, the repetition finds the key
        # taken: by us. Callers that can tell their own bytes read it back.
        return self._put("create", key, data, IfNoneMatch="*")

    def replace(self, key: str, data: bytes, etag: str | None) -> str:
        if etag is None:
            return self._put("replace", key, data)
        try:
            return self._put("replace", key, data, IfMatch=etag)
        except KeyMissingError as error:
            raise KeyExistsError(f"{self._where(key)} is gone") from error
        except KeyExistsError:
            if not _attempts.in_doubt:
                raise
        return self._settle(key, data)

    def _settle(self, key: str, data: bytes) -> str:
        """Tell our own replacement, whose answer was lost, from another's."""
        try:
            present = self.get(key)
        except KeyMissingError as error:
            raise KeyExistsError(f"{self._where(key)} is gone") from error
        except StoreError as error:
            raise OutcomeUnknownError(f"{error}; it may have been replaced before") from error
        if present.data != data:
            raise KeyExistsError(f"{self._where(key)} was changed by another")
        return present.etag

    def delete(self, key: str) -> None:
        name = self._name(key)
        with suppress(KeyMissingError), self._plain_words("delete", key):
            self._client.delete_object(Bucket=self._bucket, Key=name)

    def folders(self, prefix: str) -> Sequence[str]:
        found = {
            common["Prefix"].rstrip("/").rpartition("/")[2]
            for page in self._pages(prefix, Delimiter="/")
            for common in page.get("CommonPrefixes", ())
        }
        return sorted(found - {""})

    def list(self, prefix: str) -> Iterator[Listed]:
        for page in self._pages(prefix):
            for item in page.get("Contents", ()):
                # Consoles make empty objects named like folders.
                if not item["Key"].endswith("/"):
                    key = item["Key"][len(self._base) :]
                    yield Listed(key, item["Size"], item["LastModified"].timestamp())

    def stage(self) -> Staged:
        return S3Staged(self.upload)

    def leftovers(self) -> Iterator[Leftover]:
        where = {"Bucket": self._bucket, "Prefix": self._base}
        with self._plain_words("list unfinished uploads in", ""):
            pages = list(self._client.get_paginator("list_multipart_uploads").paginate(**where))
        for upload in (upload for page in pages for upload in page.get("Uploads", [])):
            name = f"{upload['Key'][len(self._base) :]}?uploadId={upload['UploadId']}"
            yield Leftover(name, 0, upload["Initiated"].timestamp(), certain=False)
        for item in self.list(STAGING):  # of a probe that died
            yield Leftover(item.key, item.size, item.modified, certain=False)

    def remove_leftover(self, leftover: Leftover) -> None:
        key, of_upload, upload = leftover.name.rpartition("?uploadId=")
        if not of_upload:
            self.delete(leftover.name)
            return
        target = {"Bucket": self._bucket, "Key": self._name(key), "UploadId": upload}
        gone = suppress(self._client.exceptions.NoSuchUpload)
        with self._plain_words("abort the upload of", key, write=True), gone:
            self._client.abort_multipart_upload(**target)

    def stage_in_parts(self) -> Staged:
        return S3Staged(self._upload_parts)

    def upload(self, path: Path, size: int, key: str) -> None:
        """Publish a local file; see :meth:`Staged.publish`."""
        if size < PART_BYTES:
            with path.open("rb") as file:
                self.put_if_absent(key, file.read(size))
        elif self.exists(key):  # S3 looks only once all parts are there
            raise KeyExistsError(f"{self._where(key)} is taken")
        else:  # when busy, S3 wants the whole upload anew
            _until_decided(lambda: self._upload_parts(path, size, key))

    def _upload_parts(self, path: Path, size: int, key: str) -> None:
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))
        with self._plain_words("create", key):
            started = self._client.create_multipart_upload(**target)
            upload = {**target, "UploadId": started["UploadId"]}

        def send(number: int) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek((number - 1) * part_bytes)
                data = file.read(min(part_bytes, size - file.tell()))
            with self._plain_words("create", key):
                answer = self._client.upload_part(**upload, PartNumber=number, Body=data)
                return {"PartNumber": number, "ETag": answer["ETag"]}

        try:
            with ThreadPoolExecutor(PARALLEL_PARTS) as pool:
                parts = [*pool.map(send, range(1, -(-size // part_bytes) + 1))]
            _attempts.in_doubt = False
            with self._plain_words("create", key, write=True):
                self._client.complete_multipart_upload(
                    **upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
                )
        except BaseException:
            # No part is under way any more. Parts that nobody completes would cost money and
            # show nowhere. An upload that was completed after all is out of abort's reach.
            with suppress(Exception):
                self._client.abort_multipart_upload(**upload)
            raise

    def _put(self, action: str, key: str, data: bytes, **condition: str) -> str:
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        _attempts.in_doubt = False

        def put() -> str:
            with self._plain_words(action, key, write=True):
                return str(self._client.put_object(**target, Body=data, **condition)["ETag"])

        return _until_decided(put)

    def _read(self, key: str, **ranged: str) -> tuple[bytes, str, bool]:
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        for left in reversed(range(READ_TRIES)):
            with self._plain_words("read", key):
                answer = self._client.get_object(**target, **ranged)
                try:
                    data = answer["Body"].read()
                    break
                except BotoCoreError:  # boto3 repeats only up to the headers, not the body
                    if not left:
                        raise
        return data, str(answer.get("ETag", "")), "ContentRange" in answer

    def _pages(self, prefix: str, **more: str) -> Iterator[Any]:
        folder = f"{self._name(prefix.rstrip('/'))}/"
        paginator = self._client.get_paginator("list_objects_v2")
        pages = iter(paginator.paginate(Bucket=self._bucket, Prefix=folder, **more))
        while True:
            with self._plain_words("list", prefix):
                page = next(pages, None)
            if page is None:
                return
            yield page

    def _name(self, key: str) -> str:
        if not s3_settings.is_key(key):
            raise InvalidNameError(f"{key!r} is not a key of a lake")
        return f"{self._base}{key}"

    def _where(self, key: str) -> str:
        return f"{self.uri}/{key}"

    @contextmanager
    def _plain_words(self, action: str, key: str, write: bool = False) -> Iterator[None]:
        """The one door through which boto3's errors become ours.

        ``from None``: their text can quote a request's headers, and with them a token.
        """
        try:
            yield
        except ClientError as error:
            raise self._answer_error(error, action, key, write) from None
        except (BotoCoreError, ResponseParserError) as error:
            words = s3_words.for_failure(type(error), self._client.meta.endpoint_url)
            in_doubt = _maybe_sent(error) or getattr(_attempts, "in_doubt", False)
            raise self._error(action, key, words, write and in_doubt) from None
        except KeyError as error:
            words = f"the answer has no {error}: {self._client.meta.endpoint_url} is not S3"
            raise self._error(action, key, words, write) from None

    def _answer_error(self, error: Any, action: str, key: str, write: bool) -> Exception:
        answer = error.response
        details = answer.get("Error", {})
        meta = answer.get("ResponseMetadata", {})
        code, status = str(details.get("Code", "")), int(meta.get("HTTPStatusCode", 0))
        if code in s3_words.BUSY:
            return _BusyError(f"{self._where(key)} is being written by another")
        if code in s3_words.CHANGED or status == HTTPStatus.PRECONDITION_FAILED:
            return KeyExistsError(f"{self._where(key)} is taken, or was changed by another")
        if code in s3_words.MISSING and action in ("read", "replace", "delete"):
            return KeyMissingError(f"{self._where(key)} is not there")
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and not write:
            return _BeyondEndError(f"{self._where(key)} ends earlier")
        region = meta.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
        region = str(details.get("Region", "") or region)
        message = str(details.get("Message", ""))
        words = s3_words.for_code(code, status, message, self._bucket, region)
        in_doubt = _maybe_done(status, code) or getattr(_attempts, "in_doubt", False)
        return self._error(action, key, words, write and in_doubt)

    def _error(self, action: str, key: str, words: str, in_doubt: bool) -> StoreError:
        if in_doubt:
            return OutcomeUnknownError(
                f"whether {self._where(key)} was written ({action}) is not known: {words}"
            )
        return StoreError(f"cannot {action} {self._where(key)}: {words}")
