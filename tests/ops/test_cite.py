"""Citations of versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singerlake.annotations import changes, document
from singerlake.annotations.subjects import LAKE
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake
from singerlake.ops.freeze import FreezeOptions, freeze
from tests.build import commit_rows
from tests.cli.call import run, run_json


@pytest.fixture
def owned(lake: Lake) -> Lake:
    """A version labelled a&b of a table whose tap has an owner."""
    columns = {"id": {"type": "integer"}}
    commit_rows(lake, "tap-shop.orders", columns, ["id"], [{"id": n} for n in range(1200)])
    options = FreezeOptions(label="a&b", pointer="current")
    freeze(lake.find("tap-shop.orders")[0], options, EngineChoice(LOCAL))
    said = {"owner": "Nobody", "taps": {"tap-shop": {"owner": "Ada {L}"}}}
    changes.annotate(lake, document.changes(said, LAKE))
    return Lake.open(lake.store.uri)


def version(lake: Lake) -> Any:
    (found,) = lake.find("tap-shop.orders")[0].versions()
    return found


@pytest.mark.parametrize("name", ["tap-shop.orders.1", "tap-shop.orders@current"])
def test_cite_names_what_finds_and_what_proves_the_version(owned: Lake, name: str) -> None:
    found = version(owned)
    done = run(owned, "cite", name)
    assert done.stdout == (
        "Ada {L}. tap-shop.orders, version 1 (a&b). In: lake. 1,200 rows, frozen "
        f"{found.time[:10]} {found.time[11:16]} UTC. Fingerprint {found.fingerprint}.\n"
    )


def test_cite_gives_bibtex_and_datacite(owned: Lake) -> None:
    found = version(owned)
    text = run(owned, "cite", "tap-shop.orders.1", "--format", "bibtex").stdout
    assert text.startswith("@dataset{tap-shop-orders-1,\n")
    assert "  title = {tap-shop.orders, version 1 (a\\&b)},\n  author = {Ada L},\n" in text
    assert f"fingerprint {found.fingerprint}" in text
    text = run(owned, "cite", "tap-shop.orders.1", "--format", "datacite").stdout
    metadata = json.loads(text)
    assert metadata["creators"] == [{"name": "Ada {L}"}]
    assert (metadata["version"], metadata["sizes"]) == ("1", ["1200 rows"])
    assert metadata["publicationYear"] == int(found.time[:4])
    assert metadata["alternateIdentifiers"][0]["alternateIdentifier"] == found.fingerprint
    every = run_json(owned, "cite", "tap-shop.orders@current")
    assert (every["version"], every["datacite"]) == ("tap-shop.orders.1", metadata)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("tap-shop.orders", 2, "is the head, which moves: freeze it"),
        ("tap-shop.orders.@1", 2, "is a transaction, whose snapshot may expire: freeze it"),
        ("tap-shop.orders.2", 3, "has no version '2'"),
        ("tap-shop.orders@next", 3, "has no pointer @next: it has @current"),
        ("tap-shop.order.1", 3, "did you mean tap-shop.orders"),
    ],
)
def test_cite_refuses_what_moves_or_is_not_there(
    owned: Lake, name: str, code: int, message: str
) -> None:
    done = run(owned, "cite", name)
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
