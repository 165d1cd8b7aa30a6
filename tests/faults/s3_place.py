"""Lakes on S3, and faults of the wire: the k-th request goes wrong, boto3 and all."""

from __future__ import annotations

import types
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from singerlake.lake import Lake
from singerlake.storage.base import Store
from singerlake.storage.s3.store import S3Store
from tests.faults.cases import Case, Place
from tests.faults.faulty_store import Done, Kind
from tests.faults.operations import Operation
from tests.faults.plain import Dump
from tests.storage.conftest import BUCKET, options
from tests.storage.relay import Fault, Relay, Seen, error_body

_CHANGES = frozenset({"PUT", "DELETE", "POST"})
_ANY = _CHANGES | {"GET", "HEAD"}


@dataclass(frozen=True, kw_only=True)
class WireKind(Kind):
    """A way for a request to go wrong.

    Attributes:
        status: Answered; None closes the connection.
        code: S3's, in the answer's body.
        forward: Whether the server gets the request all the same.
        lasting: Whether all later requests go wrong, too.
    """

    status: int | None = None
    code: str = ""
    forward: bool = False
    lasting: bool = False

    @property
    def fault(self) -> Fault:
        """What the relay does."""
        body = error_body(self.code) if self.code else ""
        return Fault("", self.status, body, forward=self.forward)


WIRE_KINDS = (
    WireKind("503 SlowDown, then success", _ANY, harmless=True, status=503, code="SlowDown"),
    WireKind(
        "500 after the effect, then 412",
        _CHANGES,
        harmless=True,
        status=500,
        code="InternalError",
        forward=True,
    ),
    WireKind("connection cut before, then success", _ANY, harmless=True),
    WireKind("connection cut after the effect, then 412", _CHANGES, harmless=True, forward=True),
    WireKind("503 at every attempt (outage)", _ANY, status=503, code="SlowDown", lasting=True),
    WireKind(
        "500 after the effect, then outage",
        _CHANGES,
        status=500,
        code="InternalError",
        forward=True,
        lasting=True,
    ),
)


class StrikingRelay(Relay):
    """Lets the k-th request go wrong."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.at = 0
        self.kind: WireKind | None = None

    def arm(self, at: int, kind: WireKind | None) -> None:
        """Forget what was seen, and strike at this request from now."""
        with self._mutex:
            self.seen, self.at, self.kind = [], at, kind

    def _next(self, method: str, path: str, headers: dict[str, str]) -> Fault | None:
        with self._mutex:
            self.seen.append(Seen(method, path, headers))
            place, kind = len(self.seen), self.kind
        if kind is None or place < self.at or (place > self.at and not kind.lasting):
            return None
        # In an outage nothing more gets through.
        return kind.fault if place == self.at else Fault("", 503, error_body("SlowDown"))


class Bucket(Place):
    """Lakes in a bucket, each below a prefix of its own.

    Args:
        port: The S3 server's.
        relay: Between the lake under test and the server.
    """

    def __init__(self, port: int, relay: StrikingRelay) -> None:
        self._relay = relay
        # One client each for all lakes: making one takes as long as a case.
        self._direct = self._lake = S3Store.open(
            f"s3://{BUCKET}/{uuid.uuid4().hex}", options(f"http://127.0.0.1:{port}")
        )
        self._relayed = S3Store.open(f"s3://{BUCKET}", options(relay.url))
        self._lake._client.create_bucket(Bucket=BUCKET)
        self._before: Dump = {}

    def prepare(self, operation: Operation) -> None:
        operation.prepare(Lake(self._lake))
        self._before = self.dump()

    def fresh(self) -> Store:
        uri = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        self._lake = S3Store(uri, self._direct._options, self._direct._client)
        for key, data in self._before.items():
            name = self._lake._base + key
            self._lake._client.put_object(Bucket=BUCKET, Key=name, Body=data)
        return self._lake

    def dump(self) -> Dump:
        client, base = self._lake._client, self._lake._base
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=base)
        names = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return {
            name[len(base) :]: client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
            for name in names
        }

    @contextmanager
    def watched(self, trace: list[Done]) -> Iterator[Store]:
        self._relay.arm(0, None)
        with self._through_relay() as store:
            yield store
        trace += [Done(one.method, one.path) for one in self._relay.seen]

    @contextmanager
    def failing(self, case: Case) -> Iterator[Store]:
        assert isinstance(case.kind, WireKind)
        self._relay.arm(case.at, case.kind)
        try:
            with self._through_relay() as store:
                yield store
        finally:
            assert len(self._relay.seen) >= case.at, "the fault never struck"
            self._relay.arm(0, None)

    @contextmanager
    def _through_relay(self) -> Iterator[Store]:
        # The same lake through the relay; boto3 does not sleep between attempts.
        impatient = types.SimpleNamespace(time=lambda: 0.0, sleep=lambda _: None)
        with mock.patch("botocore.endpoint.time", impatient):
            yield S3Store(self._lake.uri, self._relayed._options, self._relayed._client)
