"""singerlake upload of a folder: what is refused before Java starts, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError
from singerlake.files import folder_rows
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.upload.upload_folder import check_no_vacuum
from singerlake.ops.vacuum import plan as vacuum
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.cli.test_upload import check_refused, forbid_java
from tests.files.photos import AT_ONCE, forget, sync, table_of

DOCS = "archive.docs"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, body in {"a.txt": "a", "b.txt": "same", "sub/c.pdf": "same"}.items():
        Path("docs", name).parent.mkdir(parents=True, exist_ok=True)
        Path("docs", name).write_text(body)
    return tmp_path / "docs"


REFUSED: list[tuple[list[str], int, str]] = [
    (["docs", "docs/a.txt"], 2, "one folder, or one pattern in quotes, at a time"),
    (["docs", "--mode", "insert"], 2, "--mode insert is for files of rows|replace"),
    (["docs", "--key", "path"], 2, "--key is for files of rows"),
    (["docs", "--types", "size:string"], 2, "--types is for files of rows"),
    (["docs", "--format", "csv"], 2, "--format is for files of rows"),
    (["docs", "--rejects", "r.csv"], 2, "--rejects is for files of rows"),
    (["docs", "--if-transaction", "1"], 2, "this one is new"),
    (["docs", "--label", "x"], 2, "--new-version"),
    (["docs/*.png"], 5, "no file matches docs/*.png"),
    (["none"], 3, "no file or folder none"),
    (["none/*.pdf"], 3, "no file or folder none/*.pdf"),
    (["docs/{a,b}.txt"], 3, "no file or folder docs/{a,b}.txt|braces"),
    (["docs/{a,b}*.txt"], 5, "no file matches docs/{a,b}*.txt|braces"),
    (["docs/a.txt"], 2, "does not specify a format|for documents, name the folder"),
    (["docs/none*.csv"], 5, "no file matches docs/none*.csv"),
    ([".hidden-link"], 5, "'x' is a link"),
]


@pytest.mark.parametrize(("args", "code", "says"), REFUSED)
def test_what_is_refused_before_java_starts(
    lake: Lake, work: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, says: str
) -> None:
    Path(".hidden-link").mkdir()
    Path(".hidden-link/x").symlink_to(work)
    forbid_java(monkeypatch)
    check_refused(run(lake, "upload", DOCS, *args), code, says)
    assert not Path(lake.store.uri).exists()


def test_tables_of_other_rows_and_the_lake_itself_are_refused(lake: Lake, work: Path) -> None:
    commit_rows(lake, "shop.orders", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    check_refused(run(lake, "upload", "shop.orders", "docs"), 2, "its key is id|name a new table")
    properties = dict(folder_rows.SCHEMA.schema["properties"])
    for name, without in (("a", "size"), ("b", "file")):
        kept = {n: spec for n, spec in properties.items() if n != without}
        kept |= {"file": {"type": "string"}} if without == "file" else {}
        commit_rows(lake, f"shop.{name}", kept, ["path"], [{"path": "x"}])
    check_refused(run(lake, "upload", "shop.a", "docs"), 2, "has no column 'size'")
    check_refused(run(lake, "upload", "shop.b", "docs"), 2, "column 'file' is none")
    root = Path(lake.store.uri)
    check_refused(run(lake, "upload", DOCS, str(root / "raw")), 2, "of the lake itself")
    check_refused(run(lake, "upload", DOCS, str(root.parent)), 5, f"'{root.name}' is the lake")


def test_a_vacuum_that_announces_meanwhile_ends_it(tmp_path: Path) -> None:
    sync(tmp_path / "lake", {1: "data:,a", 2: "data:,b"})
    sync(tmp_path / "lake", {1: "data:,c"})
    table = table_of(tmp_path / "lake")
    before = table.snapshot()
    check_no_vacuum(table.store, before)
    forget(table)
    plan = vacuum.plan_vacuum(table.store, table.snapshot(), AT_ONCE)
    vacuum.announce(table.store, plan, AT_ONCE, "vacuum")
    with pytest.raises(ConflictError, match="run it again"):
        check_no_vacuum(table.store, before)
    now = table.snapshot()
    check_no_vacuum(table.store, now)


@pytest.mark.usefixtures("each_operation", "engine")
def test_a_folder_and_what_becomes_of_it(lake: Lake, work: Path) -> None:
    def upload(*args: str) -> tuple[Any, tuple[int, ...]]:
        done = run_json(lake, "upload", DOCS, *args)
        names = ("inserted", "updated", "deleted", "unchanged")
        return done, tuple(done[name] for name in names)

    done, counts = upload("docs", "--comment", "as scanned", "--new-version")
    assert (counts, done["created"], done["version"]["number"]) == ((3, 0, 0, 0), True, 1)
    assert done["stored"] == {"files": 2, "bytes": 5}
    table = lake.table(TableName("archive", "docs"))
    [entry] = table.entries()
    assert entry.metadata["comment"] == "as scanned"
    assert entry.metadata["files"] == [done["folder"]] == [{"name": "docs", "files": 3, "size": 9}]
    work.joinpath("a.txt").unlink()
    work.joinpath("b.txt").write_text("other")
    work.joinpath("d").write_text("a")
    dry, would = upload("docs", "--dry-run")
    assert (would, dry["stored"]) == ((1, 1, 1, 1), None)
    content = {*Path(lake.store.uri, table.name.content).rglob("*-*")}
    assert len(content) == 2
    done, counts = upload("docs")
    assert counts == would
    assert done["stored"] == {"files": 1, "bytes": 5}  # what was "a" is "d" now
    assert table.snapshot().number == done["transaction"] == 2
    done, counts = upload("docs")
    assert (counts, done["transaction"]) == ((0, 0, 0, 3), None)
    work.joinpath("sub/c.pdf").unlink()
    done, counts = upload("docs/*", "--mode", "upsert")
    assert (counts, done["paths_from"]) == ((0, 0, 0, 2), "docs")
    result = run(lake, "upload", DOCS, "docs/sub/../*", "--mode", "upsert", "--dry-run")
    assert "paths are relative to docs/sub/.." in result.stdout.splitlines()
    shown = run_json(lake, "files", "ls", f"{DOCS}.1")
    assert [one["name"] for one in shown] == ["a.txt", "b.txt", "sub/c.pdf"]
    result = run(lake, "files", "export", f"{DOCS}.1", "out")
    assert result.exit_code == 0, result.output
    assert Path("out/b.txt").read_text() == Path("out/sub/c.pdf").read_text() == "same"
    check_refused(run(lake, "upload", DOCS, "docs", "--if-transaction", "1"), 4, "1")
    [report] = run_json(lake, "verify", DOCS)
    assert report["problems"] == []
