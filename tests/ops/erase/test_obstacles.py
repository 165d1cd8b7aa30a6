"""What an erasure refuses before anything is written: each by name, with the way out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import UsageError
from singerlake.format.annotations import Publication
from singerlake.format.lake_log import LakeTable, LakeVersion
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import lake_log
from singerlake.ops import freeze as freezing
from singerlake.ops.drop import drop_table
from singerlake.ops.erase import obstacles
from singerlake.ops.erase.obstacles import Obstacle
from singerlake.ops.freeze import FreezeOptions
from singerlake.overlay.alter import AlterOptions
from singerlake.publish import registry
from tests.build import commit_rows
from tests.cli import call
from tests.ops.erase import by_hand, planted
from tests.ops.erase.planted import KEY, NAME, PROPERTIES, ROW
from tests.ops.vacuum.plain_table import freeze

ASK = ("erase", str(NAME), "--reason", "request 12", "--key", KEY)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    planted.innocent(lake)
    planted.commit(lake, ROW)
    return lake


def found(lake: Lake, *ids: str, words: bool = True) -> list[Obstacle]:
    table = lake.table(NAME)
    return obstacles.of_rows(lake, table, table.snapshot(), ids or [KEY], words=words)


def test_nothing_is_in_the_way(lake: Lake) -> None:
    commit_rows(lake, "tap.other", PROPERTIES, ["id"], [ROW])
    assert found(lake) == [], "another table's row is nobody's of this one"


@pytest.mark.parametrize("column", ["message", "message_base64"])
def test_refused_lines(lake: Lake, column: str) -> None:
    line = json.dumps({"type": "RECORD", "stream": NAME.stream, "record": ROW})
    text = line if column == "message" else base64.b64encode(line.encode()).decode()
    properties = {"digest": {"type": "string"}, column: {"type": "string"}}
    rejected = f"{NAME}__rejected"
    commit_rows(lake, rejected, properties, ["digest"], [{"digest": "0", column: text}])
    (one,) = found(lake)
    assert one.what == f"{rejected} contains these rows, or may contain them"
    assert f"--table '{rejected} where …'" in one.do
    assert found(lake, "1") == []
    table = lake.table(NAME)
    (many,) = obstacles.of_rows(lake, table, table.snapshot(), None, words=True)
    assert "too many to search for" in many.what


def test_what_was_computed_from_it(lake: Lake) -> None:
    sources = [{"table": str(NAME), "version": None, "transaction": 1, "commit": "c"}]
    rows = [{**ROW, "name": "Z"}]
    commit_rows(lake, "tap.made", PROPERTIES, ["id"], rows, metadata={"sources": sources})
    more = [{"table": "tap.made", "version": None, "transaction": 1, "commit": "c"}]
    commit_rows(lake, "tap.again", PROPERTIES, ["id"], rows, metadata={"sources": more})
    assert [one.what.split()[0] for one in found(lake)] == ["tap.again", "tap.made"]
    assert found(lake, "1") == [], "they do not have that one"


@pytest.mark.parametrize(
    ("metadata", "there"),
    [
        ({"comment": f"customer {KEY} called"}, True),
        ({"comment": f"customer {KEY}0 called"}, False),
        ({"query": f"select * from t where id = {KEY}"}, True),
        ({"tags": [{"of": f"id:{KEY}"}]}, True),
        ({"tap_state": json.dumps({"bookmarks": {"t": {"last": int(KEY)}}})}, True),
        ({"tap_state": json.dumps({"bookmarks": {"t": {"last": f"2026-{KEY}"}}})}, False),
    ],
)
def test_words_in_the_log(lake: Lake, metadata: dict[str, Any], there: bool) -> None:
    planted.commit(lake, {"id": 2, "name": "Bob"}, metadata=metadata)
    assert bool(found(lake)) is there
    assert found(lake, words=False) == []
    if there:
        assert found(lake)[0].what.endswith("spelled the same: 3")


@pytest.mark.parametrize(("key", "there"), [(KEY, True), (f"{KEY}0", False)])
def test_requirements_of_a_version_count_as_words_in_the_log(
    lake: Lake, key: str, there: bool
) -> None:
    options = FreezeOptions(require=[f"max(name) != '{key}'"])
    freezing.freeze(lake.find(str(NAME))[0], options, EngineChoice(LOCAL))
    assert bool(found(lake)) is there


def test_a_version_that_is_called_so(lake: Lake) -> None:
    freeze(lake.table(NAME), 1)
    assert found(lake) == []


def test_a_key_of_several_columns_is_named_by_all_of_them(lake: Lake) -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    commit_rows(
        lake, "tap.two", properties, ["a", "b"], [{"a": "x1", "b": "y1"}], metadata={"c": "x1"}
    )
    table = lake.table(TableName("tap", "two"))

    def words() -> list[Obstacle]:
        return obstacles.of_rows(lake, table, table.snapshot(), ['["x1","y1"]'], words=True)

    assert words() == []
    other = [{"a": "z", "b": "z"}]
    commit_rows(lake, "tap.two", properties, ["a", "b"], other, metadata={"c": "y1 of x1"})
    assert len(words()) == 1


def refused(lake: Lake, *args: str) -> str:
    """Of all that the command refuses before Java starts, nothing is changed."""
    before = {item.key: (item.size, item.modified) for item in lake.store.list("")}
    result = call.run(lake, *args)
    assert result.exit_code in (2, 3), result.output
    assert {item.key: (item.size, item.modified) for item in lake.store.list("")} == before
    return result.stderr


def test_the_command_refuses_what_is_published(lake: Lake) -> None:
    registry.enter(
        lake, "people", Publication(tables=[str(NAME)], to="s3://b/people", format="parquet")
    )
    text = refused(lake, *ASK)
    assert "the published copy people at s3://b/people cannot be rebuilt" in text
    assert "singerlake unpublish people --delete" in text
    registry.leave(lake, "people")
    at = "/published/people"
    registry.enter(lake, at, Publication(tables=[str(NAME)], to=at, format="parquet"))
    assert f"the published copy {at} cannot be rebuilt" in refused(lake, *ASK)


def test_the_command_names_all_that_is_in_the_way(lake: Lake) -> None:
    planted.commit(lake, {"id": 2, "name": "B"}, metadata={"comment": f"of {KEY}"})
    sources = [{"table": str(NAME), "version": None, "transaction": 1, "commit": "c"}]
    commit_rows(lake, "tap.made", PROPERTIES, ["id"], [ROW], metadata={"sources": sources})
    text = refused(lake, *ASK)
    assert "nothing was changed:" in text
    assert "tap.made contains these rows" in text
    assert "text in log entries" in text and "--allow-text-mentions" in text
    assert f"of {KEY}" not in text, "and does not repeat them"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["erase", str(NAME), "--key", KEY], "--reason"),
        (["erase", str(NAME), "--reason", "why"], "one of --key, --where and --from"),
        (["erase", "--key", KEY, "--reason", "why"], "name the TABLE"),
        ([*ASK, "--where", "id = 1"], "one of --key, --where and --from"),
        ([*ASK, "--text", "Zoë"], "require --search"),
        (["erase", str(NAME), "--reason", " ", "--key", KEY], "the reason is empty"),
        (["erase", str(NAME), "--reason", "a\nb", "--key", KEY], "the reason is empty"),
        (["erase", f"{NAME}.@1", "--reason", "why", "--key", KEY], "is a version"),
        (["erase", "tap.none", "--reason", "why", "--key", KEY], "tap.none"),
        ([*ASK, "--table", str(NAME)], "is named twice"),
        ([*ASK, "--table", "tap.none"], "tap.none"),
        ([*ASK, "--table", f"{NAME}.@1 where id = 1"], "is a version"),
        ([*ASK, "--table", " "], "is not a table"),
        ([*ASK, "--table", "tap.b", "--table", "tap.b where id = 1"], "--table takes a TABLE once"),
        (
            ["erase", "--search", str(NAME), "--key", KEY, "--table", "tap.b"],
            "leave the others out",
        ),
        (["erase", str(NAME), "--from", "no-such-file", "--reason", "why"], "there is no file"),
        (["erase", "--search", str(NAME), "--key", KEY, "--reason", "w"], "leave the others out"),
    ],
)
def test_what_makes_no_sense(lake: Lake, args: list[str], why: str) -> None:
    assert why in refused(lake, *args)


def test_one_id_of_tables_with_other_keys(lake: Lake) -> None:
    commit_rows(lake, "tap.other", {"number": {"type": "integer"}}, ["number"], [{"number": 1}])
    text = refused(lake, *ASK, "--table", "tap.other")
    assert "rows of tap.other go by number, those of tap.t by id" in text
    assert "--table 'tap.other where …'" in text


def test_all_tables_are_looked_at_before_the_first(lake: Lake) -> None:
    """Also the words and the tables that were computed of the second; but none of the run."""
    commit_rows(lake, "tap.b", PROPERTIES, ["id"], [ROW], metadata={"comment": f"of {KEY}"})
    sources = [{"table": "tap.b", "version": None, "transaction": 1, "commit": "c"}]
    commit_rows(lake, "tap.made", PROPERTIES, ["id"], [ROW], metadata={"sources": sources})
    text = refused(lake, *ASK, "--table", "tap.b")
    assert "rows of tap.t, tap.b cannot be erased yet" in text
    assert "tap.made contains these rows" in text and "text in log entries" in text
    text = refused(lake, *ASK, "--table", "tap.b", "--table", "tap.made")
    assert "tap.made contains these rows" not in text and "text in log entries" in text


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (None, "there is no"),
        ("- {name: other, from: tap.t, to: elsewhere}", "no projection of this name is declared"),
        ("- {name: people, from: tap.t, to: elsewhere}", "it is declared to go to"),
        ("- {name: people, from: tap.t, to: out}", "contains something else (thesis.doc)"),
    ],
)
def test_what_cannot_be_published_anew(
    lake: Lake, tmp_path: Path, declared: str | None, why: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.doc").write_text("years of work")
    file = tmp_path / "some.yml"
    if declared is not None:
        file.write_text(f"version: 1\nprojections:\n{declared}\n")
    to = str(tmp_path / "out")
    registry.enter(lake, "people", Publication(tables=[str(NAME)], to=to, format="parquet"))
    said = () if declared is None else ("--projections", str(file))
    assert why in refused(lake, *ASK, *said)


def test_an_empty_list_of_ids(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("\n \n")
    ask = ("erase", str(NAME), "--from", str(tmp_path / "ids"), "--reason", "why")
    assert "has no id" in refused(lake, *ask)


def test_a_table_that_was_dropped(lake: Lake, tmp_path: Path) -> None:
    """It is looked at like others, as long as it can come back; what it fed cannot be made anew."""
    planted.commit(lake, {"id": 2, "name": "B"}, metadata={"comment": f"of {KEY}"})
    drop_table(lake.store, lake.table(NAME).snapshot(), AlterOptions())
    to = str(tmp_path / "out")
    file = tmp_path / "some.yml"
    file.write_text(
        "version: 1\nprojections:\n- {name: people, from: tap.t, to: out}\n"
        '- {name: staged, sql: "select id, name from tap.t", stage: staging.t, key: id, to: more}\n'
    )
    sources = [{"table": str(NAME), "version": None, "transaction": 1, "commit": "c"}]
    rows: list[Any] = [{"id": 1, "name": "A"}]
    commit_rows(lake, "staging.t", PROPERTIES, ["id"], rows, metadata={"sources": sources})
    for name, table in (("people", str(NAME)), ("staged", "staging.t")):
        registry.enter(lake, name, Publication(tables=[table], to=to, format="parquet"))
    text = refused(lake, *ASK, "--projections", str(file))
    assert "text in log entries" in text
    assert text.count("cannot be rebuilt: tap.t is dropped") == 2
    files = [block.file for block in lake.table(NAME).snapshot(dropped=True).restorable or ()]
    by_hand._commit(
        lake.store, lake.table(NAME).snapshot(dropped=True), Operation.VACUUM_START, deletes=files
    )
    text = refused(lake, *ASK)
    assert "singerlake vacuum tap.t --retain 0s --no-retention-guard" in text
    with pytest.raises(UsageError):
        obstacles.refuse([NAME], [Obstacle("it", "do that")])


def test_words_of_people_about_columns(lake: Lake) -> None:
    said = ("alter", str(NAME), "describe", "name", f"of customer {KEY} a pen name")
    assert call.run(lake, *said).exit_code == 0
    (one,) = found(lake)
    assert one.what.startswith("text in log entries")
    assert found(lake, "1") == []


def test_words_of_lake_versions_and_in_the_lakes_file(lake: Lake) -> None:
    freeze(lake.table(NAME), 1)
    commit_rows(lake, "tap.other", PROPERTIES, ["id"], [ROW])
    freeze(lake.table(TableName("tap", "other")), 1)
    version(lake, "tap.other", comment=f"without customer {KEY}")
    version(lake, str(NAME), comment=f"for {KEY}0")
    assert found(lake) == [], "words of another table, and of another row"
    version(lake, str(NAME), comment=f"without customer {KEY}")
    version(lake, str(NAME), label=f"no-{KEY}")
    (one,) = found(lake)
    assert one.what.endswith("spelled the same: 3, 4")
    assert found(lake, words=False) == []
    said = ("annotate", str(NAME), "--description", f"with {KEY}, who pays late")
    assert call.run(lake, *said).exit_code == 0
    assert found(Lake.open(lake.store.uri))[1].do.startswith("change them with singerlake annot")


def version(lake: Lake, table: str, **said: Any) -> None:
    """A lake version of a table's first version, with words."""
    tap, stream = table.split(".")
    one = LakeTable(tap, stream, 1, 1, 1, 1, "lt1:a", "lt1:b")
    plain = LakeVersion(format=5, number=0, commit="", time="", cut="", tables=[one], **said)
    lake_log.commit(lake.store, lambda _: plain)


def test_the_reason_names_nobody(lake: Lake) -> None:
    result = call.run(lake, "erase", str(NAME), "--key", KEY, "--reason", f"customer {KEY}, 12")
    assert result.exit_code == 2
    assert "the reason names a row to erase," in result.stderr
    obstacles.check_reason(f"request {KEY}0", [KEY])
    obstacles.check_reason("the DE one", ['["DE","17"]'])
    with pytest.raises(UsageError, match="leave that"):
        obstacles.check_reason("17 in DE", ['["DE","17"]'])
