"""Lakes on Google Cloud Storage and on Azure, and faults of the wire, as for S3."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from singerlake.lake import Lake
from singerlake.storage.base import Store
from singerlake.storage.object_store.store import ObjectStore
from tests.faults.cases import Case, Place
from tests.faults.faulty_store import Done
from tests.faults.operations import Operation
from tests.faults.plain import Dump
from tests.faults.s3_place import StrikingRelay, WireKind
from tests.storage.services import Service


class Container(Place):
    """Lakes in a bucket or container, each below a prefix of its own.

    Args:
        service: Whose.
        relay: Between the lake under test and the server.
    """

    def __init__(self, service: Service, relay: StrikingRelay) -> None:
        self._relay = relay
        # One client each for all lakes: making one takes as long as a case.
        self._direct = self._lake = service.open()
        self._relayed = service.open(address=relay.url)
        self._before: Dump = {}

    def prepare(self, operation: Operation) -> None:
        operation.prepare(Lake(self._lake))
        self._before = self.dump()

    def fresh(self) -> Store:
        self._lake = self._at(uuid.uuid4().hex, self._direct)
        for key, data in self._before.items():
            self._lake.replace(key, data, None)
        return self._lake

    def dump(self) -> Dump:
        return {one.key: self._lake.get(one.key).data for one in self._lake._listed("")}

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

    @staticmethod
    def _at(prefix: str, like: ObjectStore) -> ObjectStore:
        container = like.uri.rpartition("/")[0]
        return ObjectStore(f"{container}/{prefix}", like._options, like._connection)

    @contextmanager
    def _through_relay(self) -> Iterator[Store]:
        # The same lake through the relay; nobody sleeps between attempts.
        with mock.patch("singerlake.storage.object_store.obstore_errors.PAUSE", 0):
            yield self._at(self._lake.uri.rpartition("/")[2], self._relayed)
