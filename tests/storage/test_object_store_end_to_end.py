"""The whole road on Google Cloud Storage and on Azure, copies, and tables of other formats."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from singerlake.errors import ConflictError, UsageError
from singerlake.publish.destinations.delta.destination import storage_options
from singerlake.publish.projection import Format
from singerlake.publish.published import Commit
from singerlake.storage.object_store.store import ObjectStore
from singerlake.storage.options import StoreOptions
from singerlake_cli.main import cli
from tests.publish.table_place import FIRST, SECOND, Place, position, publish, rows, write
from tests.storage import azurite
from tests.storage.plugins import start
from tests.storage.services import CONTAINER, TOKEN, Service, no_settings
from tests.target.harness import TAP, record, schema, state, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_settings"]
TABLE = f"{TAP}.orders"


def plugin(
    module: str, folder: Path, config: dict[str, Any], *more: str, data: bytes = b""
) -> list[bytes]:
    process = start(module, folder, config, *more)
    out, err = process.communicate(data, timeout=120)
    assert process.returncode == 0, err.decode()
    assert TOKEN.encode() not in err and azurite.KEY.encode() not in err
    return out.splitlines()


def run(uri: str, *args: str) -> Any:
    result = CliRunner().invoke(cli, ["--lake", uri, "--output", "json", *args])
    assert result.exit_code == 0, result.output + result.stderr
    return json.loads(result.stdout)


@pytest.mark.usefixtures("processes")
def test_the_whole_road(
    spark: SparkSession,
    service: Service,
    direct: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    uri, config = direct.uri, {**service.settings(), "lake": direct.uri}
    for name, value in service.settings().items():
        monkeypatch.setenv(f"SINGERLAKE_{name.upper()}", value)
    columns = {"id": {"type": "integer"}, "x": {"type": "string"}}
    lines = [record("orders", {"id": n, "x": "1.10"}) for n in range(5)]
    target = {**config, "tap_id": TAP, "block_rows": 2}
    sent = [schema("orders", columns, ["id"]), *lines, state({"n": 1})]
    assert plugin("target_singerlake", tmp_path, target, data=text(sent)) == [b'{"n": 1}']
    assert [one["table"] for one in run(uri, "ls")] == [TABLE]
    assert run(uri, "freeze", TABLE, "--label", "first")["rows"] == 5
    newer = record("orders", {"id": 9, "x": "new"})
    sent = [schema("orders", columns, ["id"]), newer, state({"n": 2})]
    plugin("target_singerlake", tmp_path, target, data=text(sent))

    sql = f"select id, x from `{TAP}`.orders.first where id > 2 order by id"
    assert run(uri, "query", sql)["rows"] == [[3, "1.10"], [4, "1.10"]]
    vacuumed = run(uri, "vacuum", TABLE, "--retain", "0s", "--no-retention-guard")
    assert vacuumed
    replayed = plugin("tap_singerlake", tmp_path, config)
    assert [line for line in replayed if b'"RECORD"' in line] == [*lines, newer]
    findings = {one["check"]: one for one in run(uri, "doctor")}
    assert findings["conditional writes"]["found"] == "honored by this store"
    assert findings["credentials"]["found"].startswith("from the settings, for http://127.0.0.1")
    assert findings["clock"]["state"] == "ok"

    (tmp_path / "back").mkdir()
    run(uri, "copy", uri, str(tmp_path / "back"), TABLE)
    assert run(str(tmp_path / "back"), "versions", TABLE)[0]["label"] == "first"
    run(uri, "docs", "--out", f"{uri}-site")
    page = service.open(f"{uri.rpartition('/')[2]}-site").get("index.html")
    assert b"orders" in page.data
    if service.scheme == "az":  # one more job of Spark is enough for each
        (verified,) = run(uri, "verify", TABLE)
        assert (verified["problems"], verified["versions"]) == ([], 1)
        return
    run(uri, "publish", "--table", TABLE, "--to", f"{uri}-published", "--format", "csv")
    published = service.open(f"{uri.rpartition('/')[2]}-published")
    (data,) = [one.key for one in published._listed("") if one.key.endswith(".csv")]
    assert len(published.get(data).data.splitlines()) == 7


# Tables of other formats.


def test_an_iceberg_table(google: Service) -> None:
    pytest.importorskip("pyiceberg")
    place = Place(f"gs://{CONTAINER}/{uuid.uuid4().hex}/t", Format.ICEBERG, google.options())
    first = publish(place.open(), FIRST, 1)
    slow = place.open()
    mine = write(slow, SECOND, slow.file_schema(SECOND.schema, first))
    second = publish(place.open(), SECOND, 2, keep=True)
    with pytest.raises(ConflictError, match="run it again"):
        slow.commit(first, Commit(position(2), FIRST.schema, first.files, [mine]))
    assert place.open().published() == second
    assert place.open().sweep(timedelta(0)) >= 0
    place.open().remove()
    assert place.open().store.first_key() is None


def test_iceberg_has_no_word_for_containers_of_azure(azure: Service) -> None:
    pytest.importorskip("pyiceberg")
    with pytest.raises(UsageError, match="Iceberg tables.*publish it as Delta"):
        Place(f"az://{CONTAINER}/t", Format.ICEBERG, azure.options()).open()


def test_a_delta_table(service: Service) -> None:
    pytest.importorskip("deltalake")
    from deltalake import DeltaTable

    root = f"{service.scheme}://{CONTAINER}/{uuid.uuid4().hex}/orders"
    options = service.options()
    if service.scheme == "gs":
        with pytest.raises(UsageError, match="deltalake.*has no settings for gcs_token"):
            Place(root, Format.DELTA, options).open()
        account = {"client_email": "", "private_key": "", "private_key_id": ""}
        account |= {"gcs_base_url": service.address, "disable_oauth": True}
        options = StoreOptions(
            gcs_service_account_key=json.dumps(account), gcs_endpoint_url=service.address
        )
    place = Place(root, Format.DELTA, options)
    assert place.open().published() is None
    first = publish(place.open(), FIRST, 1)
    slow = place.open()
    mine = write(slow, SECOND, slow.file_schema(SECOND.schema, first))
    publish(place.open(), SECOND, 2, keep=True)
    with pytest.raises(ConflictError, match="run it again"):
        slow.commit(first, Commit(position(2), FIRST.schema, first.files, [mine]))
    table = DeltaTable(root, storage_options=storage_options(root, options))
    found = table.to_pyarrow_table().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == rows(FIRST, SECOND)
    assert place.open().sweep(timedelta(0)) >= 0
    place.open().remove()
    assert place.open().store.first_key() is None
