"""Citations of versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singerlake.annotations import changes, document
from singerlake.annotations.subjects import LAKE
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.ops.cite_query import cite_query
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


ALL_TYPES = "select id, name, amount, weight, paid, day, at, tags, address from tap_shop.facts.1"


@pytest.fixture
def facts(owned: Lake) -> Lake:
    """A version of a table of all kinds of columns."""
    columns: dict[str, Any] = {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"]},
        "amount": {"type": ["null", "number"], "multipleOf": 0.01},
        "weight": {"type": ["null", "number"]},
        "paid": {"type": ["null", "boolean"]},
        "day": {"type": ["null", "string"], "format": "date"},
        "at": {"type": ["null", "string"], "format": "date-time"},
        "tags": {"type": ["null", "array"], "items": {"type": "string"}},
        "address": {"type": ["null", "object"], "properties": {"city": {"type": "string"}}},
    }
    full = {
        "name": "Zoë",
        "amount": 1.5,
        "weight": 0.1,
        "paid": True,
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:05.6Z",
        "tags": ["a", None],
        "address": {"city": "x"},
    }
    rows = [{"id": n, **(full if n % 2 else {})} for n in range(9)]
    commit_rows(owned, "tap-shop.facts", columns, ["id"], rows)
    freeze(owned.find("tap-shop.facts")[0], None, EngineChoice(LOCAL))
    return owned


def test_query_of_a_whole_version_has_its_fingerprint(facts: Lake) -> None:
    """So whoever holds the version can prove the citation, and the other way round."""
    found, read = cite_query(facts, ALL_TYPES, EngineChoice(LOCAL))
    (version,) = facts.find("tap-shop.facts")[0].versions()
    assert (found.rows, found.fingerprint) == (9, version.fingerprint)
    assert [str(one) for one in read] == ["tap-shop.facts.1"]


def test_both_engines_cite_a_query_alike(facts: Lake, spark: Any) -> None:
    for sql in (ALL_TYPES, "select count(*) as n, sum(amount) as a from tap_shop.facts.1"):
        here, _ = cite_query(facts, sql, EngineChoice(LOCAL))
        there, _ = cite_query(facts, sql, EngineChoice.of(spark=spark))
        assert (here.rows, here.fingerprint) == (there.rows, there.fingerprint)


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("select id from tap_shop.facts.1 limit 3", "LIMIT without ORDER BY"),
        ("select id from tap_shop.facts.1 offset 3", "LIMIT without ORDER BY"),
    ],
)
def test_neither_engine_cites_any_rows(facts: Lake, spark: Any, sql: str, part: str) -> None:
    for choice in (EngineChoice(LOCAL), EngineChoice.of(spark=spark)):
        with pytest.raises(UsageError, match=f"the query has {part}: run again, it may give"):
            cite_query(facts, sql, choice)


@pytest.mark.parametrize(
    ("select", "part"),
    [
        ("rand() as r", r"rand\(\), which gives another value each time"),
        ("id, uuid() as u", r"uuid\(\), which gives another value each time"),
        ("current_date() as d", "which gives another value each time"),
        ("first(name) as f", r"first\(\), whose value may depend on the order of rows"),
        ("collect_list(id) as l", "whose value may depend on the order of rows"),
        ("sum(weight) as s", r"sum\(\) of doubles, whose last digits depend"),
        ("stddev(id) as s", "whose value may depend on the order of rows"),
        ("(select id from tap_shop.facts.1 limit 1) as n", "LIMIT without ORDER BY"),
    ],
)
def test_spark_cites_nothing_that_may_differ_when_run_again(
    facts: Lake, spark: Any, select: str, part: str
) -> None:
    with pytest.raises(UsageError, match=f"the query has .*{part}"):
        cite_query(facts, f"select {select} from tap_shop.facts.1", EngineChoice.of(spark=spark))


def test_spark_cites_what_is_the_same_in_any_order(facts: Lake, spark: Any) -> None:
    sql = (
        "select name, count(*) as n, avg(id) as a, max(weight) as m, sum(amount) as s, "
        "every(paid) as e, count_if(paid) as c, median(weight) as h, "
        "sum(cast(weight as decimal(12, 2))) as w from tap_shop.facts.1 where id in "
        "(select id from tap_shop.facts.1 order by id limit 5) group by name"
    )
    assert cite_query(facts, sql, EngineChoice.of(spark=spark))[0].rows == 2


def test_cite_a_query(owned: Lake) -> None:
    sql = "select id,  -- of all\n id as again from tap_shop.orders\nversion as of '1' ;"
    once = run_json(owned, "cite", sql)
    plain = "select id, id as again from tap_shop.orders version as of '1'"
    assert (once["sql"], once["versions"]) == (plain, ["tap-shop.orders.1"])
    (fingerprint,) = once["datacite"]["alternateIdentifiers"]
    assert once["text"].startswith(
        f"Ada {{L}}. {plain}. In: lake. Read tap-shop.orders.1. 1,200 rows"
    )
    assert once["text"].endswith(f"Fingerprint {fingerprint['alternateIdentifier']}.")
    reversed_ = run_json(owned, "cite", f"{plain} order by id desc")
    assert reversed_["datacite"]["alternateIdentifiers"] == [fingerprint]
    one = run(owned, "cite", f"{plain} where id = 7").stdout
    assert "Read tap-shop.orders.1. 1 row, computed" in one
    other = run_json(owned, "cite", f"{plain} where id <> 7")
    assert other["datacite"]["alternateIdentifiers"] != [fingerprint]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from tap_shop.orders", "whose snapshot may expire: freeze it"),
        ("select * from tap_shop.orders.`@1`", "whose snapshot may expire: freeze it"),
        (
            "select * from tap_shop.orders.`@current`",
            "reads tap-shop.orders@current, a pointer, which may move: name tap-shop.orders.1",
        ),
        ("select * from tap_shop.orders version as of '@current'", "a pointer, which may move"),
        ("select id, id from tap_shop.orders.1", "two columns are named 'id'"),
    ],
)
def test_cite_refuses_a_query_whose_result_may_change(owned: Lake, sql: str, message: str) -> None:
    done = run(owned, "cite", sql, "--engine", "local")
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr
