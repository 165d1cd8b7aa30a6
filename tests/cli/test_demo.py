"""The sample that comes with the package: ``singerlake demo --messages``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from singerlake.errors import SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake_cli import demo_messages
from singerlake_cli.commands import demo
from singerlake_cli.main import cli
from tests.build import commit_rows


@pytest.mark.parametrize(("args", "records"), [([], 1100), (["monday"], 1100), (["tuesday"], 88)])
def test_it_prints_messages_and_nothing_else(
    args: list[str], records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["demo", "--messages", *args])
    assert (done.exit_code, done.stderr) == (0, "")
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert kinds.count("RECORD") == records
    assert kinds.count("SCHEMA") == 2
    assert (kinds[0], kinds[-1]) == ("SCHEMA", "STATE")
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(cli, ["demo", "--messages", *args]).stdout == done.stdout


def test_orders_shipped_on_tuesday_change_only_their_status() -> None:
    """Otherwise the first diff that a newcomer sees looks like a bug."""
    records = [
        json.loads(line)["record"]
        for day in ("monday", "tuesday")
        for line in demo_messages.DAYS[day]()
        if '"stream": "orders", "record"' in line
    ]
    before = {record["id"]: record for record in records[:1000]}
    shipped = [record for record in records if record["status"] == "shipped"]
    cancelled = [record for record in records if "_sdc_deleted_at" in record]
    assert (len(shipped), len(cancelled)) == (30, 12)
    for record in shipped + cancelled:
        changed = {name for name, value in before[record["id"]].items() if record[name] != value}
        assert changed == ({"status"} if record in shipped else set())


def test_another_day_is_refused() -> None:
    done = CliRunner().invoke(cli, ["demo", "--messages", "friday"])
    assert done.exit_code == 2
    assert "'monday', 'tuesday'" in done.output


@pytest.mark.parametrize("is_activated", [True, False])
def test_last_command_it_prints_is_one_that_runs(
    is_activated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = tmp_path / "with space" / "bin", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir(parents=True)
    (own / "singerlake").write_text("#!/bin/sh\n")
    (own / "singerlake").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    monkeypatch.setenv("PATH", str(own if is_activated else other))
    assert demo._typed() == ("singerlake" if is_activated else f"'{own}/singerlake'")
    (own / "singerlake").rename(other / "singerlake")
    monkeypatch.setenv("PATH", str(other))
    assert demo._typed() == "singerlake"
    monkeypatch.setenv("PATH", "")
    assert demo._typed() == f"'{own}/python' -m singerlake_cli"


def test_what_it_published_is_read_with_duckdb_where_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/test_wheel.py runs the demo where it is not."""
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"status": ["paid", "new", "paid"], "total": [1.25, 2.0, 3.0]})
    for folder, some in (("old", rows.slice(0, 1)), ("newest", rows)):
        (tmp_path / "place" / folder).mkdir(parents=True)
        pq.write_table(some, tmp_path / "place" / folder / "part-0.parquet")
    (tmp_path / "place" / "_latest.json").write_text(json.dumps({"folder": "newest/"}))
    demo._read_published("place")
    shown = capsys.readouterr().out
    assert "from 'place/newest/*.parquet'" in shown
    assert [line.split("│")[1:4] for line in shown.splitlines() if "paid" in line] == [
        [" paid    ", "      2 ", "   4.25 "]
    ]
    monkeypatch.setitem(sys.modules, "duckdb", None)
    demo._read_published("place")
    assert capsys.readouterr().out == ""


def test_the_same_rows_must_have_one_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever engine froze them; the demo freezes Monday's orders on both."""
    monkeypatch.chdir(tmp_path)
    lake = Lake.open("lake", create=True)
    for number in (1, 2):
        commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": number}])
        freeze(lake.table(TableName("tap", "s")), FreezeOptions(label=f"l{number}"))
    demo._same_fingerprint("tap.s", "l1", "l1")
    with pytest.raises(SingerlakeError, match="several fingerprints: l1, l2"):
        demo._same_fingerprint("tap.s", "l1", "l2")
