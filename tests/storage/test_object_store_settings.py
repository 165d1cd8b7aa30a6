"""Settings of Google Cloud Storage and Azure that cannot work: refused by name, not repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singerlake.errors import OutcomeUnknownError, StoreError, UsageError
from singerlake.storage.object_store import connection
from singerlake.storage.object_store.obstore_errors import Requests
from singerlake.storage.object_store.vendor import AZURE, GOOGLE, Connection
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from tests.storage.services import no_settings

__all__ = ["no_settings"]
GS, AZ = "gs://bucket/lake", "az://container/lake"
ACCOUNT = {"azure_storage_account_name": "acct"}
KEY = {"private_key": "hunter2", "client_email": "a", "private_key_id": "b"}
UNUSABLE = [
    (GS, {"gcs_token": "hunter2\n"}, "gcs_token"),
    (GS, {"gcs_endpoint_url": "http://x\n"}, "gcs_endpoint_url"),
    (GS, {"gcs_endpoint_url": "http://x:hunter2"}, "gcs_endpoint_url"),
    (GS, {"gcs_service_account_key": json.dumps(KEY)}, "gcs_service_account_key"),
    (AZ, {"azure_storage_account_name": "acct\n"}, "azure_storage_account_name"),
    (AZ, {**ACCOUNT, "azure_storage_sas_token": "sv=1&sig=hunter2\n"}, "azure_storage_sas_token"),
    (AZ, {**ACCOUNT, "azure_storage_sas_token": "hunter2"}, "azure_storage_sas_token"),
    (AZ, {**ACCOUNT, "azure_endpoint_url": "ht tp://x:hunter2"}, "azure_endpoint_url"),
    (
        AZ,
        {
            **ACCOUNT,
            "azure_client_secret": "hunter2",
            "azure_tenant_id": "t\n",
            "azure_client_id": "c",
        },
        "azure_tenant_id",
    ),
]


@pytest.mark.parametrize(("uri", "settings", "named"), UNUSABLE)
def test_what_cannot_be_sent_is_refused_by_name(
    uri: str, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError) as raised:
        open_store(uri, StoreOptions(**settings))
    assert named in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("uri", "settings", "variable"),
    [(GS, {}, "GOOGLE_BEARER_TOKEN"), (AZ, ACCOUNT, "AZURE_STORAGE_TOKEN")],
)
def test_variables_are_looked_at_where_they_are_used(
    uri: str, settings: dict[str, Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "hunter2\n")
    with pytest.raises(UsageError, match=variable):
        open_store(uri, StoreOptions(**settings))
    anonymous = "gcs_anonymous" if uri == GS else "azure_anonymous"
    assert open_store(uri, StoreOptions(**settings, **{anonymous: True})).uri == uri


def panicking() -> None:
    kind = type(connection.PANIC, (BaseException,), {"__module__": "pyo3_runtime"})
    raise kind("request must be valid: hunter2")


@pytest.mark.parametrize("vendor", [GOOGLE, AZURE])
def test_a_panic_is_an_error_like_others(vendor: Any) -> None:
    requests = Requests(GS, Connection(vendor, "bucket", "http://x", None, None))
    with pytest.raises(StoreError) as read:
        requests.read("read", "x", panicking)
    with pytest.raises(OutcomeUnknownError) as written:
        requests.write("create", "x", panicking)
    assert "hunter2" not in f"{read.value}{written.value}"
    with pytest.raises(KeyboardInterrupt):
        requests.read("read", "x", interrupted)


def interrupted() -> None:
    raise KeyboardInterrupt
