"""From a folder to S3 and back, and to a service that ignores conditions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.copy.destination import check_place
from singerlake.ops.verify.lake import check_lake_log
from singerlake.storage.local.store import LocalStore
from singerlake.storage.options import StoreOptions
from singerlake.storage.s3.store import S3Store
from tests.log.non_conditional import NonConditionalStore
from tests.ops.copy.world import (
    NAME,
    QUICK,
    combine,
    copy,
    copy_lake_version,
    data_files,
    delete,
    log_of,
    problems,
    write,
)
from tests.ops.freeze.test_freeze_lake import freeze
from tests.storage.conftest import no_aws_settings, non_conditional_s3, s3_port, s3_store

__all__ = ["no_aws_settings", "non_conditional_s3", "s3_port", "s3_store"]
BOTH = replace(QUICK, sync=True, verify=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(LocalStore(tmp_path / "lake"))
    write(lake, 1, 2, 3)
    write(lake, 4)
    combine(lake)
    delete(lake)
    write(lake, 5)
    return lake


def test_to_s3_and_back(lake: Lake, s3_store: S3Store, tmp_path: Path) -> None:
    back = LocalStore(tmp_path / "back")
    for more in range(2):
        copy(lake.store, s3_store, options=BOTH)
        assert problems(s3_store) == [] and log_of(s3_store) == log_of(lake.store)
        assert data_files(s3_store) == data_files(lake.store)
        copy(s3_store, back, options=BOTH)
        assert problems(back) == [] and log_of(back) == log_of(lake.store)
        assert data_files(back) == data_files(lake.store)
        if not more:
            write(lake, 6)
            combine(lake)
            delete(lake)
    assert Lake(s3_store).file is None  # only Lake.open reads it
    words = s3_store.get("raw/singerlake.json").data
    assert b'"conditional_writes": true' in words.replace(b'":true', b'": true')
    assert b"s3://" not in back.get("raw/singerlake.json").data


def test_a_bucket_of_the_same_name_elsewhere_is_another_place() -> None:
    def store(uri: str, endpoint: str | None) -> S3Store:
        return S3Store.open(uri, StoreOptions("id", "secret", region="eu-west-1", **at(endpoint)))

    def at(endpoint: str | None) -> dict[str, str]:
        return {} if endpoint is None else {"endpoint_url": endpoint}

    one, other = "http://127.0.0.1:1", "http://127.0.0.1:2"
    aws = "https://s3.eu-central-1.amazonaws.com"
    for here, there, same in ((one, other, False), (one, None, False), (one, one, True)):
        stores = store("s3://data/lake", here), store("s3://data/lake", there)
        assert (stores[0].service == stores[1].service) is same
    for here, there in ((one, one), (None, aws)):
        for uri in ("s3://data/lake", "s3://data/lake/x"):
            with pytest.raises(UsageError, match="outside"):
                check_place(store("s3://data/lake", here), store(uri, there))


def test_to_a_service_that_ignores_conditions(lake: Lake, non_conditional_s3: S3Store) -> None:
    copy(lake.store, non_conditional_s3)
    write(lake, 6)
    copy(lake.store, non_conditional_s3, options=BOTH)
    assert problems(non_conditional_s3) == []
    assert log_of(non_conditional_s3) == log_of(lake.store)


def test_to_a_folder_that_ignores_conditions(lake: Lake, tmp_path: Path) -> None:
    store = NonConditionalStore(tmp_path / "backup", settle=0.02)
    copy(lake.store, store)
    write(lake, 6)
    copy(lake.store, store)
    assert log_of(store) == log_of(lake.store) and problems(store) == []


def test_a_lake_version_to_s3_and_back(lake: Lake, s3_store: S3Store, tmp_path: Path) -> None:
    for number, tables in enumerate(([NAME, "tap-test.u"], [NAME], [NAME, "tap-test.u"]), start=1):
        for table in tables:
            write(lake, 10 + number, table=table)
            freeze(lake, lake.find(table)[0].name)
        names = {lake.find(table)[0].name for table in tables}
        freeze_lake.commit_lake_version(lake.store, freeze_lake.plan(lake.store, names.copy), {})
    back = LocalStore(tmp_path / "back")
    for number, left_out in ((2, 1), (2, 1), (3, 0)):
        copy_lake_version(lake.store, s3_store, str(number))
        report = check_lake_log(s3_store)
        assert (len(report.versions), report.problems) == (number, [])
        assert len(report.notes) == left_out
    copy_lake_version(s3_store, back, "3")
    assert check_lake_log(back).problems == [] and problems(back) == []
    assert log_of(back) == log_of(s3_store) == log_of(lake.store)
    assert Lake(back).lake_versions() == lake.lake_versions()
