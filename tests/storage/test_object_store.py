"""The contract on Google Cloud Storage and on Azure; names, conditions and uploads."""

from __future__ import annotations

import uuid

import pytest

from singerlake.storage.base import Store
from singerlake.storage.object_store.store import BULK_BYTES
from tests.storage import contract
from tests.storage.contract import StoreContract
from tests.storage.services import Service, no_settings

__all__ = ["no_settings"]


@pytest.fixture
def store(service: Service) -> Store:
    return service.open(f"a lake+50%/ü/{uuid.uuid4().hex}")


class TestObjectStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _no_larger_than_it_must_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing goes up in parts: what is sent by the patient client is large enough."""
        monkeypatch.setattr(contract, "MANY", BULK_BYTES + 7)
