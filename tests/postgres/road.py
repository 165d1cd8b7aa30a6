"""The road of the round trip: a source, a lake, and the same target with and without the lake.

The honest oracle is the direct run: the messages of a tap go into target-postgres once as they
are, and once through the lake. Whatever the tap or that target make of a value, both databases
must hold the same. Where neither loses anything, the rows are held against the source too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from tests.postgres.cluster import Cluster
from tests.postgres.plugins import Tap, load
from tests.tap.run import run as replay
from tests.target.harness import run as sync_into

HERE = Path(__file__).parent
SAME = ("whole", "by_key", "by_log")
METHODS = {
    "whole": "FULL_TABLE",
    "by_key": "INCREMENTAL",
    "by_log": "LOG_BASED",
    "odd": "FULL_TABLE",
}
"""The schemas of the source, each read by one method; the first three hold the same tables."""
TAP_ID = "tap-postgres"
OF_THE_RUN = {"_sdc_received_at", "_sdc_batched_at", "_sdc_sequence", "_sdc_sync_started_at"}
"""What target-postgres writes of its own run."""
Row = dict[str, Any]
Key = tuple[str, str]
"""A stream, as schema and table of the source."""


def without(rows: list[Row], columns: Iterable[str]) -> list[Row]:
    """Rows without some columns, in an order that does not depend on how they were stored."""
    dropped = set(columns)
    cut = [{k: v for k, v in row.items() if k not in dropped} for row in rows]
    return sorted(cut, key=repr)


class Road:
    """A lake, and a cluster with four databases.

    ``source`` is read by the tap. Its messages go into the lake and straight into ``direct``. The
    lake is replayed into ``replayed``, and version 1 of its tables into ``alone``.
    """

    def __init__(self, cluster: Cluster, tap: Tap, folder: Path, streams: list[Key]):
        """Make the databases, and fill the source.

        Args:
            cluster: Whose databases of these names are made anew.
            tap: What reads the source.
            folder: For the lake and the plugins' files.
            streams: What is to be read.
        """
        self.cluster, self.tap, self.folder, self.streams = cluster, tap, folder, streams
        self.lake = Lake.open(str(folder / "lake"), create=True)
        self.state: Any = None
        self.bookmark: Any = None
        for database in ("source", "direct", "replayed", "alone"):
            cluster.sql("postgres", f"drop database if exists {database} with (force)")
            cluster.sql("postgres", f"create database {database}")
        cluster.sql("source", (HERE / "types.sql").read_text("utf-8"))
        for schema in METHODS:
            cluster.sql("source", f"create schema {schema}")
            script = "source.sql" if schema in SAME else "odd.sql"
            self._run(script, schema)
        slot = f"select pg_create_logical_replication_slot('{tap.slot}', 'wal2json')"
        cluster.sql("source", slot)

    def _run(self, script: str, schema: str) -> None:
        text = (HERE / script).read_text("utf-8")
        self.cluster.sql("source", f"set search_path = {schema}, public;\n{text}")

    def change(self) -> None:
        """Change the rows of the source."""
        for schema in SAME:
            self._run("changes.sql", schema)

    def read(self) -> bytes:
        """What the tap puts out, from where it was."""
        selected = {f"{schema}-{table}": METHODS[schema] for schema, table in self.streams}
        return self.tap.sync(self.folder, self.cluster.port, selected, self.state)

    def write(self, messages: bytes, **settings: Any) -> None:
        """Messages into the lake, and the same ones straight into ``direct``.

        Args:
            messages: What a tap put out.
            settings: Of target-singerlake.
        """
        settings = {"tap_id": TAP_ID, "stream_maps": self.tap.maps, **settings}
        self.state = sync_into(self.folder / "lake", messages, **settings)[-1]
        load(self.folder, self.cluster.port, "direct", messages, self.tap.maps)

    def replay(self) -> None:
        """What is new in the lake since the last time, into ``replayed``."""
        done = replay(self.lake, self.bookmark, tap_id=TAP_ID)
        self.bookmark = done.state
        load(self.folder, self.cluster.port, "replayed", done.out)

    def replay_version_1(self, streams: list[Key]) -> None:
        """Version 1 of some tables, into ``alone``."""
        names = [f"{schema}-{table}.1" for schema, table in streams]
        done = replay(self.lake, tap_id=TAP_ID, streams=names)
        load(self.folder, self.cluster.port, "alone", done.out)

    def table(self, schema: str, table: str) -> Table:
        """A stream as a table of the lake."""
        return self.lake.table(TableName(TAP_ID, f"{schema}-{table}"))

    def loaded(self, database: str, schema: str, table: str) -> list[Row]:
        """The rows of a table that target-postgres filled, but for those marked as deleted."""
        name = f"{_quoted(schema)}.{_quoted(table)}"
        return self._rows(database, f"select * from {name} where _sdc_deleted_at is null")

    def source(self, schema: str, table: str) -> list[Row]:
        """The rows of the source, in the shape that target-postgres gives them."""
        name = f"{_quoted(schema)}.{_quoted(table)}"
        listed = self.cluster.sql(
            "source",
            "select json_build_array(attname, format_type(atttypid, null), typcategory) "
            "from pg_attribute join pg_type on pg_type.oid = atttypid "
            f"where attnum > 0 and not attisdropped and attrelid = {_text(name)}::regclass",
        )
        columns = [json.loads(line) for line in listed]
        shown = ", ".join(f"{_shape(*column)} as {_quoted(column[0])}" for column in columns)
        return self._rows("source", f"select {shown} from {name}")

    def _rows(self, database: str, query: str) -> list[Row]:
        lines = self.cluster.sql(database, f"select row_to_json(t) from ({query}) t")
        return [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines]


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _shape(column: str, kind: str, category: str) -> str:
    """A column of the source as an expression of the type that its copy has."""
    name = _quoted(column)
    if kind == "timestamp with time zone":
        return f"{name} at time zone 'UTC'"
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    if kind == "hstore":
        return f"hstore_to_json({name})"
    return f"{name}::text" if category == "C" else name  # a composite would become an object
