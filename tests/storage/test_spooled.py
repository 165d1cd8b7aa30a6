"""A file on its way to a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.storage.spooled import SpooledFile


def test_of_a_write_that_failed_half_way_nothing_goes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sent: list[tuple[int, bytes]] = []

    def upload(path: Path, size: int, key: str) -> None:
        assert key == "raw/one"
        sent.append((size, path.read_bytes()))

    staged = SpooledFile(upload, lambda _: None)
    staged.write(b"one ")
    [path] = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b"tw")  # what a full disk leaves of the next write
    staged.publish("raw/one")
    assert sent == [(4, b"one ")]
