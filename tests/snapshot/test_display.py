"""What objects show of themselves, in a console and in a notebook."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import singerlake
from singerlake.errors import StoreError
from singerlake.format.names import TableName
from singerlake.ops.drop import drop_table
from singerlake.overlay.alter import AlterOptions
from singerlake.rows.state.parquet_parts import PartReader
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows

NASTY = "<script>alert('1')</script>"
COLUMNS: dict[str, Any] = {"id": {"type": "integer"}, NASTY: {"type": "string"}}


@pytest.fixture
def lake(tmp_path: Path) -> singerlake.Lake:
    lake = singerlake.open(tmp_path / "lake", create=True)
    commit_rows(lake, "tap-a.s", COLUMNS, ["id"], [{"id": n, NASTY: "x"} for n in range(1200)])
    lake["tap-a.s"].freeze("<b>first", comment="a & b")
    return lake


def test_repr_of_a_snapshot_names_version_rows_columns_and_fingerprint(
    lake: singerlake.Lake,
) -> None:
    table = lake["tap-a.s"]
    (version,) = table.versions()
    assert repr(table.at(1)) == (
        "Snapshot(tap-a.s at transaction 1, version 1 '<b>first', 1,200 rows, "
        f"fingerprint {version.fingerprint}; id: int64, {NASTY}: string)"
    )
    assert repr(table.at()) == f"Snapshot(tap-a.s at transaction 2; id: int64, {NASTY}: string)"
    assert repr(lake) == f"Lake({lake.store.uri!r})"


def test_repr_makes_no_request(lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    state = lake["tap-a.s"].at(1)
    for name in ("get", "get_range", "list", "folders"):
        monkeypatch.setattr(LocalStore, name, None)
    assert "1,200 rows" in repr(state)
    assert repr(lake) == f"Lake({lake.store.uri!r})"


def test_repr_of_a_table_names_its_newest_version_and_columns(lake: singerlake.Lake) -> None:
    table = lake["tap-a.s"]
    first = table.versions()[0]
    columns = f"id: int64, {NASTY}: string"
    assert repr(table) == (
        "Table(tap-a.s at transaction 2, newest version 1 '<b>first', 1,200 rows, "
        f"fingerprint {first.fingerprint}; {columns})"
    )
    commit_rows(lake, "tap-a.s", COLUMNS, ["id"], [{"id": 1, NASTY: "y"}])
    second = table.freeze()
    assert repr(table) == (
        "Table(tap-a.s at transaction 4, newest version 2, 1,200 rows, "
        f"fingerprint {second.fingerprint}; {columns})"
    )
    commit_rows(lake, "tap-b.t", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    assert repr(lake["tap-b.t"]) == "Table(tap-b.t at transaction 1; id: int64)"


def test_repr_of_a_table_reads_only_its_log(
    lake: singerlake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    for name in ("get", "get_range", "list", "folders"):
        function = getattr(LocalStore, name)

        def noted(
            self: LocalStore, key: str, *args: Any, _real: Any = function, **more: Any
        ) -> Any:
            read.append(key)
            return _real(self, key, *args, **more)

        monkeypatch.setattr(LocalStore, name, noted)
    assert "1,200 rows" in repr(lake.table(TableName("tap-a", "s")))
    assert read
    assert all(key.startswith(("raw/tap-a/s/transactions", "raw/tap-a/s/manifest")) for key in read)
    assert len(read) <= 4
    shutil.rmtree(tmp_path / "lake" / "raw" / "tap-a" / "s" / "transactions")
    for manifest in (tmp_path / "lake" / "raw" / "tap-a" / "s").glob("manifest*"):
        manifest.unlink()
    read.clear()
    assert repr(lake.table(TableName("tap-a", "s"))) == "Table(tap-a.s)", "files are not read"
    assert len(read) <= 4


def test_repr_of_a_table_contains_why_it_cannot_be_read(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake["tap-a.s"]
    assert repr(lake.table(TableName("tap-a", "none"))) == "Table(tap-a.none)"

    def refused(*_: Any) -> Any:
        raise StoreError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "get", refused)
        assert repr(table) == "Table(tap-a.s: the store is away)"
    drop_table(table.store, table.snapshot(), AlterOptions(), with_versions=True)
    assert repr(table).startswith("Table(tap-a.s: ")
    assert "dropped" in repr(table)


def test_repr_of_versions_is_their_facts(lake: singerlake.Lake) -> None:
    table = lake["tap-a.s"]
    versions = table.versions()
    (version,) = versions
    shown = (
        f"FrozenVersion(1 '<b>first', 1,200 rows, fingerprint {version.fingerprint}, "
        f"transaction 1, frozen {version.time})"
    )
    assert repr(version) == shown
    assert versions == [version]
    assert repr(versions) == f"Versions of tap-a.s: [\n  {shown},]"
    assert repr(lake.freeze("q3")) == (
        "LakeVersion(1 'q3', 1 table, 1,200 rows, "
        f"fingerprint {lake.lake_versions()[0].fingerprint})"
    )
    commit_rows(lake, "tap-b.t", COLUMNS, ["id"], [{"id": 1}])
    assert repr(lake["tap-b.t"].versions()) == "Versions of tap-b.t: []"


def test_lake_contains_the_tables_that_it_gives(lake: singerlake.Lake) -> None:
    lake["tap-a.s"].freeze()
    for name in ("tap-a.s", "tap_a.s", TableName("tap-a", "s")):
        assert name in lake
        assert lake[name].name == TableName("tap-a", "s")
    for name in ("tap-a.t", "tap-b.s", "s", "", "tap-a.s.1", "a b.c/d", TableName("tap-a", "t")):
        assert name not in lake
    assert 1 not in lake
    assert None not in lake


def test_html_shows_what_it_is_without_reading_rows_and_escapes_texts(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_version = lake.freeze("<i>q3")
    table = lake["tap-a.s"]
    monkeypatch.setattr(PartReader, "select", None)  # so no row can be read
    version = table.versions()[0]
    shown = {
        "lake": lake._repr_html_(),
        "table": table._repr_html_(),
        "version": version._repr_html_(),
        "versions": table.versions()._repr_html_(),
        "named": table.at(1)._repr_html_(),
        "head": table.at()._repr_html_(),
        "lake version": lake.at(lake_version.number)._repr_html_(),
    }
    for html in shown.values():
        assert html.startswith("<div><strong>")
        assert "<script>" not in html
        assert "<b>first" not in html
        assert "<i>q3" not in html
    assert '<td style="text-align:left">tap-a.s</td>' in shown["lake"]
    for name in ("table", "named", "head"):
        assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;" in shown[name]
        assert ">int64<" in shown[name]
    for name in ("table", "version", "versions", "named", "head", "lake version"):
        assert ">1,200<" in shown[name]
    assert "Versions of tap-a.s" in shown["versions"]
    for name in ("table", "version", "versions", "named", "lake version"):
        assert version.fingerprint in shown[name]
    assert "&lt;b&gt;first" in shown["version"]
    assert "&lt;i&gt;q3" in shown["lake version"]
    assert "a &amp; b" in shown["version"]


def test_html_of_a_wide_table_counts_what_it_does_not_show(tmp_path: Path) -> None:
    lake = singerlake.open(tmp_path / "lake", create=True)
    columns = {f"c{n}": {"type": "integer"} for n in range(130)}
    commit_rows(lake, "tap.wide", columns, [], [{"c0": 1}])
    html = lake["tap.wide"].at()._repr_html_()
    assert ">c99<" in html
    assert ">c100<" not in html
    assert "and 30 more" in html


def test_html_shows_an_error_instead_of_raising_it(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake["tap-a.s"]

    def refused(*_: Any) -> Any:
        raise StoreError("the store is <away>")

    monkeypatch.setattr(LocalStore, "get", refused)
    monkeypatch.setattr(LocalStore, "folders", refused)
    for html in (lake._repr_html_(), table._repr_html_()):
        assert "the store is &lt;away&gt;" in html


def test_diff_shows_what_it_compares(lake: singerlake.Lake) -> None:
    wider = {**COLUMNS, "n": {"type": "integer"}}
    commit_rows(lake, "tap-a.s", wider, ["id"], [{"id": 1, NASTY: "y", "n": 1}])
    with lake["tap-a.s"].diff(1) as found:
        assert repr(found) == (
            "Diff(tap-a.s: version 1 (<b>first, transaction 1) → the head (transaction 3), "
            "matched by id, 3 columns)"
        )
        html = found._repr_html_()
    assert "version 1 (&lt;b&gt;first, transaction 1)" in html
    assert "column &#x27;n&#x27; was added (int64)" in html


def test_names_of_tables_are_completed_in_notebooks(lake: singerlake.Lake) -> None:
    commit_rows(lake, "tap-b.t", COLUMNS, ["id"], [{"id": 1}])
    assert lake._ipython_key_completions_() == ["tap-a.s", "tap-b.t"]
    lake.freeze("q3", tables=["tap-b.t"])
    assert lake.at("q3")._ipython_key_completions_() == ["tap-b.t"]
    assert "1 table" in repr(lake.at("q3"))


def test_completion_is_offered_by_ipython(lake: singerlake.Lake) -> None:
    completer = pytest.importorskip("IPython.core.completer")
    offered = completer.IPCompleter(namespace={"lake": lake})
    offered.use_jedi = False
    with completer.provisionalcompleter():
        matches = [match.text for match in offered.completions('lake["', len('lake["'))]
    assert any("tap-a.s" in text for text in matches)
