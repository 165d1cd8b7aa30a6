"""What the benchmarks stand in for a bucket with does what a store does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import tables


def test_a_far_store_is_a_store_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "DELAY", 0)
    store = tables.FarStore(tmp_path)
    store.put_if_absent("a/one", b"1")
    store.replace("a/two", b"2", None)
    assert [store.get(key).data for key in ("a/one", "a/two")] == [b"1", b"2"]
    assert [found.key for found in store.list("a/")] == ["a/one", "a/two"]
    store.delete("a/one")
    assert store.requests == 6
