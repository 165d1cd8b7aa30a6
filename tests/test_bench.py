"""The store that the benchmarks use in place of a bucket, and the page of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import results, tables
from bench.__main__ import TOPICS


def test_a_far_store_is_a_store_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "DELAY", 0)
    store = tables.FarStore(tmp_path)
    store.put_if_absent("a/one", b"1")
    store.replace("a/two", b"2", None)
    assert [store.get(key).data for key in ("a/one", "a/two")] == [b"1", b"2"]
    assert [found.key for found in store.list("a/")] == ["a/one", "a/two"]
    store.delete("a/one")
    assert store.requests == 6


def test_page_of_results_is_generated() -> None:
    text = results.PAGE.read_text("utf-8")
    sections = results.read(text)
    assert list(sections) == [*TOPICS]
    assert text == results.render(sections, TOPICS)
    lines = {topic: section.partition("\n")[0] for topic, section in sections.items()}
    wrong = {t: one for t, one in lines.items() if not one.startswith("Measured on")}
    assert wrong == {}


def test_put_replaces_one_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PAGE", tmp_path / "RESULTS.md")
    results.PAGE.write_text(results.render({"tap": "old", "target": "kept"}, TOPICS))
    results.put("tap", "| 1 |", "Measured on a day.", TOPICS)
    results.put("erase", "new", "Measured on a day.", TOPICS)
    assert results.read(results.PAGE.read_text()) == {
        "target": "kept",
        "tap": "Measured on a day.\n\n| 1 |",
        "erase": "Measured on a day.\n\nnew",
    }


def test_measured_names_size_and_commit(processes: None) -> None:
    del processes
    line = results.measured(300_000, 3)
    assert line.startswith("Measured on 20")
    assert line.endswith(": `--rows 300000 --rounds 3`.")
    assert "commit " in line
