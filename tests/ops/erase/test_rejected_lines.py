"""Rejected lines: a search and an erasure read them as they read a file of the same bytes."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from unicodedata import normalize

import pytest

from singerlake.errors import SingerlakeError
from singerlake.format.annotations import Publication
from singerlake.format.names import TableName
from singerlake.format.refused_lines import SCHEMA
from singerlake.format.types import Kind
from singerlake.lake import Lake
from singerlake.ops.drop import drop_table
from singerlake.ops.erase import obstacles
from singerlake.ops.erase.scan import Scanner
from singerlake.ops.erase.sought import Key, KeyNames, Text
from singerlake.overlay.alter import AlterOptions
from singerlake.publish import registry
from tests.build import commit_rows, record_line
from tests.cli import call
from tests.ops.erase import planted
from tests.target import harness

TABLE = f"{harness.TAP}.o"
COLUMNS: dict[str, Any] = {"name": {"type": "string"}, "v": {"type": ["null", "number"]}}
PERSON = "Zoë Łuk"
"""Latin-1 has one of the letters; for that encoding another name is used."""
IN_LATIN = "Zoë Q"

ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "as it is": str.encode,
    "in Latin-1": lambda text: text.replace(PERSON, IN_LATIN).encode("latin-1"),
    "in UTF-16": lambda text: text.encode("utf-16"),
    "in UTF-16, little endian": lambda text: text.encode("utf-16-le"),
    "in UTF-16, big endian": lambda text: text.encode("utf-16-be"),
    "in gzip": lambda text: gzip.compress(text.encode(), mtime=0),
}
PLACES: dict[str, Callable[[str], str]] = {
    "alone": str,
    "behind a byte order mark": lambda text: "\ufeff" + text,
    "behind a log's prefix": lambda text: f"2026-11-28 INFO sent {text}",
    "behind another record": lambda text: f"{_record('Bo')}{text}",
    "in a list": lambda text: f"[{text}]",
}


def _record(name: str, stream: str = "o") -> str:
    record = {"name": name, "v": "x"}
    return json.dumps({"type": "RECORD", "stream": stream, "record": record}, ensure_ascii=False)


OBJECTS: dict[str, str] = {
    "a record": _record(PERSON),
    "a record of an undeclared stream": _record(PERSON, "p"),
    "a bare object": json.dumps({"name": PERSON}, ensure_ascii=False),
    "a record that is no JSON": _record(PERSON).replace('"x"', "01"),
    "a string that is a record": json.dumps(_record(PERSON), ensure_ascii=False),
}
WAYS = [
    *itertools.product(("alone", "behind a log's prefix"), ENCODINGS),
    *itertools.product(PLACES, ("as it is",)),
]
LINES = {
    f"{what} {where} {how}": ENCODINGS[how](PLACES[where](text))
    for (what, text), (where, how) in itertools.product(OBJECTS.items(), WAYS)
    if "undeclared" not in what  # in a file, it is another table's
}
LETTERS = ("o__rejected", "__rejected", "gone__rejected")
"""The table's, the tap's, and that of a stream that has no table."""


def person_of(what: str) -> str:
    return IN_LATIN if what.endswith("Latin-1") else PERSON


def row_of(line: bytes, digest: str = "0") -> dict[str, Any]:
    """The row of a line in a dead-letter table, as the target writes it."""
    row: dict[str, Any] = {"digest": digest, "line": 17, "file": None, "stream": None}
    row |= {"reason": "why", "message": None, "message_base64": None}
    try:
        row["message"] = line.decode()
    except UnicodeDecodeError:
        row["message_base64"] = base64.b64encode(line).decode()
    return row


def reject(lake: Lake, *lines: bytes, to: str = "o__rejected", **said: Any) -> None:
    """Commit lines to a dead-letter table."""
    rows: list[Any] = [row_of(line, str(number)) for number, line in enumerate(lines)]
    columns = SCHEMA.schema["properties"]
    commit_rows(lake, f"{harness.TAP}.{to}", columns, ["digest"], rows, metadata=said or None)


def searched(lake: Lake, key: str, code: int = 5) -> list[str]:
    """The tables in which the search finds a key."""
    ask = ("erase", "--search", TABLE, "--key", key)
    return [one["table"] for one in call.run_json(lake, *ask, code=code)["found"]]


def refused(lake: Lake, key: str) -> list[str]:
    """What an erasure of a key refuses for."""
    table = lake.find(TABLE)[0]
    found = obstacles.of_rows(lake, table, table.snapshot(), [key], words=True)
    return [one.what for one in found]


@pytest.fixture
def lake(lake: Lake) -> Lake:
    commit_rows(lake, TABLE, COLUMNS, ["name"], [{"name": "Bob", "v": 1}])
    return lake


@dataclass(frozen=True)
class Bytes:
    """An object that is read from memory."""

    data: bytes
    name: str = "x"

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


def seen(data: bytes, person: str) -> dict[str, int]:
    """What is found of a person in an object, by key and by text, and how often."""
    keys = KeyNames(TableName(harness.TAP, "o"), [("name",)], {"name": frozenset({Kind.STRING})})
    scanner = Scanner([Key("key", person, keys), Text("text", person)], only_own=False)
    counts = scanner.look(cast("Any", Bytes(data))).counts
    return {one.label: count for one, count in counts.items()}


@pytest.mark.parametrize("what", LINES)
def test_rejected_line_is_found_like_a_file_of_the_same_bytes(what: str) -> None:
    person, line = person_of(what), LINES[what]
    block = gzip.compress(record_line("o__rejected", row_of(line)), mtime=0)
    parquet = planted.parquet(**{name: [value] for name, value in row_of(line).items()})
    assert seen(line, person) == seen(block, person) == {"key": 1, "text": 1}
    assert seen(parquet, person).keys() == {"key", "text"}
    assert not any("key" in seen(one, "Zoë") for one in (line, block, parquet))


@pytest.mark.parametrize(
    ("letters", "line"),
    [
        *itertools.product(["__rejected"], OBJECTS),
        *itertools.product(["o__rejected", "gone__rejected"], ["a record", "a bare object"]),
    ],
)
def test_search_lists_the_dead_letter_tables_that_an_erasure_refuses_for(
    lake: Lake, letters: str, line: str
) -> None:
    reject(lake, OBJECTS[line].encode(), to=letters)
    refused_and_listed(lake, f"{harness.TAP}.{letters}", PERSON)


@pytest.mark.parametrize("how", ENCODINGS)
def test_rejected_line_in_another_encoding_is_refused_for(lake: Lake, how: str) -> None:
    reject(lake, ENCODINGS[how](f"INFO {_record(PERSON)}"))
    refused_and_listed(lake, f"{TABLE}__rejected", person_of(how))


def refused_and_listed(lake: Lake, name: str, person: str) -> None:
    assert searched(lake, person) == [name]
    assert refused(lake, person) == [f"{name} contains these rows, or may contain them"]
    assert searched(lake, "Zoë", code=0) == refused(lake, "Zoë") == []


def test_each_rejected_line_counts_once(lake: Lake) -> None:
    reject(lake, OBJECTS["a record"].encode(), f"INFO {OBJECTS['a bare object']}".encode())
    both = call.run_json(
        lake, "erase", "--search", TABLE, "--key", PERSON, "--text", PERSON, code=5
    )["found"]
    assert {one["sought"]: one["count"] for one in both} == {"key 1": 2, "text 1": 2}


def test_log_of_a_dead_letter_table_that_cannot_be_read_is_named(lake: Lake) -> None:
    reject(lake, b"INFO not a message")
    planted.plant(lake.store, f"raw/{harness.TAP}/__rejected/x", b"no table")
    assert refused(lake, PERSON) == []
    name = TableName(harness.TAP, "o__rejected")
    planted.plant(lake.store, name.transaction(1), b"{")
    with pytest.raises(SingerlakeError, match="o__rejected"):
        refused(lake, PERSON)


@pytest.mark.parametrize("name", ["größe", 'a "ß/\\'])
@pytest.mark.parametrize("value", ["17", '"Zoë" / \\Q', "ÿ", "é"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be"])
def test_names_and_values_of_a_key_in_other_encodings(
    lake: Lake, name: str, value: str, encoding: str
) -> None:
    commit_rows(lake, TABLE, {name: {"type": "string"}}, [name], [{name: "x"}])
    line = json.dumps({name: value}, ensure_ascii=False).replace("/", "\\/")
    planted.plant(lake.store, "backup/x", line.encode(encoding))
    assert searched(lake, value) == [None]
    assert searched(lake, value + "x", code=0) == []


def test_latin_1_with_escapes_for_other_letters(lake: Lake) -> None:
    line = json.dumps({"name": PERSON}, ensure_ascii=False).replace("Ł", "\\u0141")
    planted.plant(lake.store, "backup/x", line.encode("latin-1"))
    assert searched(lake, PERSON) == [None]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_texts_that_are_given_decomposed_are_found_in_other_encodings(
    lake: Lake, encoding: str, form: Literal["NFC", "NFD"]
) -> None:
    planted.plant(lake.store, "backup/x", f"it was {IN_LATIN}".encode(encoding))
    text = normalize(form, IN_LATIN)
    found = call.run_json(lake, "erase", "--search", "--text", text, code=5)["found"]
    assert [one["key"] for one in found] == ["backup/x"]


NO_KEYS = [
    '{"id": 47110}',
    '{"id": 14711, "other": 4711}',
    'INFO row 4711 of 4711 {"id": 47110}',
    "INFO row 4711 took 4711 ms",
    'INFO 4711 {"type": "RECORD", "stream": "o", "record": {"id": 47110, "x": 01}}',
    '{"type": "RECORD", "stream": "o", "record": {"id": 47110, "x": 01}}',
    '{"type": "RECORD", "stream": "o", "record": {"id": 1, "customer": {"id": 4711}}}',
    'x = {"id": f(4711)}',
]


@pytest.mark.parametrize("letters", LETTERS)
def test_numbers_in_rejected_lines_that_are_no_key(lake: Lake, letters: str) -> None:
    commit_rows(lake, TABLE, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    encodings = [ENCODINGS[how] for how in ("as it is", "in UTF-16", "in UTF-16, little endian")]
    reject(lake, *(encode(line) for line in NO_KEYS for encode in encodings), to=letters)
    assert searched(lake, "4711", code=0) == refused(lake, "4711") == []
    reject(lake, b'INFO {"id": 4711}', to=letters)
    assert searched(lake, "4711") == [f"{harness.TAP}.{letters}"]


def test_members_of_the_rejection_itself_are_no_key(lake: Lake) -> None:
    """A table may be keyed by ``line``; its rows are in the line, not in what is said of it."""
    commit_rows(lake, TABLE, {"line": {"type": "integer"}}, ["line"], [{"line": 1}])
    reject(lake, b"INFO not a message")
    data = planted.parquet(**{name: [value] for name, value in row_of(b"INFO").items()})
    planted.plant(lake.store, f"index/{harness.TAP}/o__rejected/3/part-{0:032x}.parquet", data)
    assert searched(lake, "17", code=0) == refused(lake, "17") == []
    reject(lake, b'INFO {"line": 17}')
    assert searched(lake, "17") == [f"{TABLE}__rejected"]
    assert refused(lake, "17") == [f"{TABLE}__rejected contains these rows, or may contain them"]


def test_table_with_columns_called_like_those_of_rejected_lines(lake: Lake) -> None:
    """Its rows are its own, and objects within its texts are no rows of it."""
    columns = {name: {"type": ["null", "string"]} for name in ("name", "message", "digest")}
    row = {"name": PERSON, "message": json.dumps({"name": "Ann"}), "digest": "0"}
    commit_rows(lake, TABLE, columns, ["name"], [row])
    assert searched(lake, "Ann", code=0) == []
    assert searched(lake, PERSON) == [TABLE]
    columns |= {name: {"type": "string"} for name in ("message_base64", "reason")}
    commit_rows(lake, TABLE, columns, ["name"], [row | {"message_base64": "", "reason": ""}])
    assert searched(lake, PERSON) == [TABLE] * 2


def test_rejected_lines_of_another_table_are_only_mentioned(lake: Lake) -> None:
    """Until that table is dropped: then a stream map may have written its stream to this one."""
    other = f"{harness.TAP}.gone"
    commit_rows(lake, other, COLUMNS, ["name"], [{"name": "Bob", "v": 1}])
    reject(lake, OBJECTS["a record"].encode(), to="gone__rejected")
    ask = ("erase", "--search", TABLE, "--key", PERSON)
    assert call.run_json(lake, *ask)["alike"] == {f"{other}__rejected": 1}
    assert refused(lake, PERSON) == []
    drop_table(lake.store, lake.find(other)[0].snapshot(), AlterOptions())
    assert searched(lake, PERSON) == [f"{other}__rejected"]
    assert refused(lake, PERSON) == [f"{other}__rejected contains these rows, or may contain them"]


def test_stream_with_a_name_like_a_dead_letter_table_has_rows_of_its_own(lake: Lake) -> None:
    row = {"name": PERSON, "v": 1}
    commit_rows(lake, f"{harness.TAP}.gone__rejected", COLUMNS, ["name"], [row])
    assert searched(lake, PERSON, code=0) == refused(lake, PERSON) == []


def test_dead_letter_tables_of_other_taps_are_others(lake: Lake) -> None:
    columns = SCHEMA.schema["properties"]
    row = row_of(OBJECTS["a record"].encode())
    commit_rows(lake, "tap-more.gone__rejected", columns, ["digest"], [row])
    assert searched(lake, PERSON, code=0) == refused(lake, PERSON) == []


def test_what_is_derived_from_or_published_of_rejected_lines_counts(
    lake: Lake, tmp_path: Path
) -> None:
    reject(lake, b"INFO not a message")
    sources = [{"table": f"{TABLE}__rejected", "version": None, "transaction": 1, "commit": "c"}]
    row = {"name": PERSON, "v": 1}
    commit_rows(lake, "staging.x", COLUMNS, ["name"], [row], metadata={"sources": sources})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part.jsonl").write_bytes(OBJECTS["a bare object"].encode())
    to = Publication(tables=[f"{TABLE}__rejected"], to=str(tmp_path / "out"), format="jsonl")
    registry.enter(lake, "rejects", to)
    found = call.run_json(lake, "erase", "--search", TABLE, "--key", PERSON, code=5)["found"]
    assert {one["table"] or one["words"] for one in found} == {"staging.x", "published as rejects"}
    assert refused(lake, PERSON) == ["staging.x contains these rows, or may contain them"]


@pytest.mark.parametrize("letters", LETTERS)
def test_words_about_rejected_lines_count_like_words_about_the_table(
    lake: Lake, letters: str
) -> None:
    name = f"{harness.TAP}.{letters}"
    reject(lake, b"INFO not a message", to=letters, comment=f"{PERSON} asked")
    (one,) = refused(lake, PERSON)
    assert one.startswith(f"text in log entries of {name} that names one of these rows")
    assert refused(lake, "Bob") == []
    said = ("annotate", name, "--description", f"mostly {PERSON}")
    assert call.run(lake, *said).exit_code == 0
    again = Lake.open(lake.store.uri)
    assert refused(again, PERSON)[1].startswith(f"text in annotations of {name} that")


def test_erasure_is_complete_only_without_the_rejected_lines(tmp_path: Path) -> None:
    """As a run with a stream map leaves them, one of them in Latin-1."""
    uri = tmp_path / "lake"
    lines = [
        harness.schema("customers", COLUMNS, keys=["name"]),
        harness.record("customers", {"name": IN_LATIN, "v": 1}),
        _record(IN_LATIN, "customers").encode("latin-1"),
    ]
    maps = {"customers": {"__alias__": "people"}}
    harness.run(uri, lines, invalid_records="quarantine", stream_maps=maps)
    lake = Lake.open(str(uri))
    table = f"{harness.TAP}.people"
    ask = ("erase", table, "--key", IN_LATIN, "--reason", "request 12", "--no-notify")
    done = call.run(lake, *ask, "--certificate", str(tmp_path / "c"), "--engine", "local")
    assert done.exit_code == 2
    assert f"{harness.TAP}.customers__rejected contains these rows" in done.stderr
    letters = lake.table(TableName(harness.TAP, "customers__rejected"))
    drop_table(lake.store, letters.snapshot(), AlterOptions())
    assert "customers__rejected contains these rows" in call.run(lake, *ask).stderr
    gone = ("vacuum", str(letters.name), "--retain", "0s", "--no-retention-guard")
    assert call.run(lake, *gone).exit_code == 0
    done = call.run(lake, *ask, "--certificate", str(tmp_path / "c"), "--engine", "local")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "c.json").read_bytes())["complete"]
