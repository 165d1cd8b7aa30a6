"""From PostgreSQL into a lake and back, by other people's taps and target.

Tables of many types and names are read by all replication methods, frozen, changed at the source,
read again and reverted; after each step the lake is replayed into a database. Twice the same rows
must come out: those of the tap put straight into the same target, and, but for what tap and target
lose themselves, those of the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.format.log import FrozenVersion
from singerlake.ops.rows_back.revert import Reverted
from target_singerlake.errors import InvalidRecordError
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.postgres.cluster import Cluster
from tests.postgres.plugins import MELTANOLABS, PIPELINEWISE, Tap
from tests.postgres.road import METHODS, OF_THE_RUN, Key, Road, Row, without
from tests.target.harness import run as sync_into

pytestmark = [
    pytest.mark.usefixtures("environments"),
    pytest.mark.usefixtures("quick_plans"),
]

STREAMS: list[Key] = [
    ("whole", "every_type"),
    ("whole", "pennies"),
    ("whole", "no_key"),
    ("whole", "Order Lines"),
    ("whole", "lines"),
    ("whole", "empty"),
    ("whole", "select"),
    ("whole", "naïve.tåble / 日本"),
    ("whole", 'a "quoted", one'),
    ("by_key", "every_type"),
    ("by_key", "lines"),
    ("by_key", "no_key"),
    ("by_log", "every_type"),
    ("by_log", "lines"),
    ("by_log", "no_key"),
]
FROZEN: dict[str, list[Key]] = {
    MELTANOLABS.plugin: [
        ("whole", "every_type"),
        ("whole", "pennies"),
        ("whole", "no_key"),
        ("by_log", "every_type"),
    ],
    PIPELINEWISE.plugin: [
        ("whole", "pennies"),
        ("by_log", "lines"),
    ],
}
"""What is frozen and reverted: each takes seconds, and the others would show nothing more."""

OF_THE_MESSAGE = {"_sdc_extracted_at", "_sdc_table_version", "_sdc_deleted_at", "_sdc_lsn"}

State = dict[Key, list[Row]]


@dataclass
class Trip:
    """What was found on the way, by the name of each step.

    Attributes:
        road: The databases and the lake.
        messages: What the tap put out the second time.
        source: The rows of the source.
        direct: Of the database that the tap's messages went straight into.
        replayed: Of the database that the lake was replayed into.
        versions: The frozen versions of each table: before the changes and, of some, after them.
        reverted: What each revert did.
        alone: Of the database that version 1 of each table was replayed into.
    """

    road: Road
    messages: bytes = b""
    source: dict[str, State] = field(default_factory=dict)
    direct: dict[str, State] = field(default_factory=dict)
    replayed: dict[str, State] = field(default_factory=dict)
    versions: dict[Key, list[FrozenVersion]] = field(default_factory=dict)
    reverted: dict[Key, Reverted] = field(default_factory=dict)
    alone: State = field(default_factory=dict)

    @property
    def frozen(self) -> list[Key]:
        return FROZEN[self.road.tap.plugin]

    def note(self, step: str) -> None:
        streams = self.road.streams
        self.source[step] = {key: self.road.source(*key) for key in streams}
        self.direct[step] = {key: self.road.loaded("direct", *key) for key in streams}
        self.replayed[step] = {key: self.road.loaded("replayed", *key) for key in streams}


@pytest.fixture(scope="module", params=[MELTANOLABS, PIPELINEWISE], ids=lambda tap: tap.plugin)
def trip(
    environments: None,
    request: pytest.FixtureRequest,
    cluster: Cluster,
    spark: SparkSession,
    quick_plans: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Trip:
    road = Road(cluster, request.param, tmp_path_factory.mktemp("postgres"), STREAMS)
    trip = Trip(road)
    road.write(road.read())
    road.replay()
    trip.note("first")
    trip.versions = {key: [freeze(spark, road.table(*key))] for key in trip.frozen}
    road.change()
    trip.messages = road.read()
    road.write(trip.messages)
    road.replay()
    trip.note("changed")
    trip.versions["whole", "pennies"].append(freeze(spark, road.table("whole", "pennies")))
    for key in trip.frozen:
        table = road.table(*key)
        trip.reverted[key] = revert(spark, table, trip.versions[key][0].transaction)
    road.replay()
    trip.note("reverted")
    road.replay_version_1(trip.frozen)
    trip.alone = {key: road.loaded("alone", *key) for key in trip.frozen}
    return trip


def test_the_lake_on_the_way_changes_nothing(trip: Trip) -> None:
    for step in ("first", "changed"):
        for key in trip.road.streams:
            straight, through = trip.direct[step][key], trip.replayed[step][key]
            assert without(through, OF_THE_RUN) == without(straight, OF_THE_RUN), (step, key)


def test_what_arrives_is_what_the_source_has(trip: Trip) -> None:
    for key, rows in trip.source["first"].items():
        left = _not_kept(trip.road.tap, key)
        assert without(trip.replayed["first"][key], left) == without(rows, left), key


def test_changes_arrive_by_every_method(trip: Trip) -> None:
    """A tap does not tell all deletions, and rows without a key come again beside the old ones."""
    tap = trip.road.tap
    for key, rows in trip.source["changed"].items():
        left = _not_kept(tap, key)
        if key[0] == "by_log":
            left |= tap.loses_from_log
        arrived, wanted = without(trip.replayed["changed"][key], left), without(rows, left)
        if METHODS[key[0]] in tap.tells_deletes and "no_key" not in key:
            assert arrived == wanted, key
        else:
            assert all(arrived.count(row) >= wanted.count(row) for row in wanted), key


def test_a_revert_is_replayed_to_what_was_frozen(trip: Trip) -> None:
    for key in trip.frozen:
        left = _not_kept(trip.road.tap, key) | {"note"}  # a column that came later
        now = without(trip.replayed["reverted"][key], left)
        assert now == without(trip.source["first"][key], left), key
        left = OF_THE_RUN | OF_THE_MESSAGE | {"note"}
        now = without(trip.replayed["reverted"][key], left)
        assert now == without(trip.direct["first"][key], left), key
        assert trip.reverted[key].put_back, key
    for key in set(STREAMS) - set(trip.frozen):
        assert trip.replayed["reverted"][key] == trip.replayed["changed"][key], key


def test_a_version_is_replayed_alone(trip: Trip) -> None:
    left = OF_THE_RUN | OF_THE_MESSAGE
    for key in trip.frozen:
        assert without(trip.alone[key], left) == without(trip.direct["first"][key], left), key


def test_a_digit_that_a_double_has_not_makes_another_version(trip: Trip) -> None:
    before, after = trip.versions["whole", "pennies"]
    assert before.rows == after.rows == 2
    assert before.record_fingerprint != after.record_fingerprint
    reverted = trip.reverted["whole", "pennies"]
    assert (reverted.put_back, reverted.deleted, reverted.unchanged) == (1, 0, 1)


def test_what_is_not_as_its_schema_says_is_refused_in_words(trip: Trip, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecordError) as refused:
        sync_into(tmp_path / "lake", trip.messages, check_values=True)
    said = re.search(r"stream 'by_log-(\w+)'.* (?:field|column) '(\w+)'", str(refused.value))
    assert said, refused.value
    assert said[2] in trip.road.tap.untrue[said[1]]
    assert re.search(r"(validate_records|check_values): false (takes|accepts)", str(refused.value))


def _not_kept(tap: Tap, key: Key) -> set[str]:
    """The columns in which a copy differs from the source, as tap and target make it."""
    schema, table = key
    untrue = tap.untrue.get(table, []) if schema == "by_log" else []
    return {*tap.loses, *untrue, *OF_THE_RUN, *OF_THE_MESSAGE}
