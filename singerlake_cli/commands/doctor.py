"""singerlake doctor: a check of all that the commands need, with advice."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from importlib import metadata as packages
from importlib.util import find_spec
from pathlib import Path

import click

from singerlake import __version__
from singerlake.errors import SingerlakeError, StoreError, UsageError
from singerlake.extras import install_line
from singerlake.format import names
from singerlake.format.metadata import LakeFile, decode
from singerlake.lake import Lake
from singerlake.safe_text import redacted
from singerlake.storage.base import KeyMissingError
from singerlake.storage.local import facts as local_facts
from singerlake.storage.opening import is_remote
from singerlake_cli import output, upgrade_check
from singerlake_cli.shared import Shared, SparkStart

LOCAL = "local[*]"
OK, NOTE, PROBLEM = "ok", "note", "problem"
SKEW_NOTE = 60.0
SKEW_REFUSED = 900.0
"""Seconds of difference: worth a word; and S3 refuses requests beyond."""
SPARK = 4
"""The release of Spark that the jobs are written for."""
STATE_WIDTH = 8
_COLOURS = {OK: "green", NOTE: "yellow", PROBLEM: "red"}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        state: ``ok``, ``note`` (works, but should be known) or ``problem``.
        advice: The next step; empty if there is none.
        exit_code: Of the error that a command would meet.
    """

    check: str
    state: str
    found: str
    advice: str = ""
    exit_code: int = 0


@click.command("doctor")
@click.option("--master", metavar="URL", default=LOCAL, help="The Spark master to look for.")
@click.option(
    "--upgrade",
    is_flag=True,
    help="List tables whose rows this release reads differently; see above.",
)
@click.pass_obj
def command(shared: Shared, master: str, upgrade: bool) -> None:
    """Check this machine and the lake, and suggest fixes.

    Checks Python, Java and its class data, Spark, the lake, credentials, conditional writes and
    clocks, but not tables: use `singerlake verify --all` for these. It changes nothing, and prints
    no secret. Without --upgrade it starts no Java. The exit code is 0 if commands will work,
    otherwise the code that they would end with.

    With --upgrade, it reads the keys of every table that is not dropped, and lists each table that
    this release reads differently than release 0.1: rows that appear or vanish, columns whose type
    changes, key columns that need another type, and versions that do not change. It also lists
    erasures and expired histories that an earlier release may have applied to several keys at once.
    Tables of more than 32 MiB of messages need Spark.

    \b
    singerlake doctor
    singerlake doctor --upgrade
    singerlake --lake s3://bucket/prefix doctor
    singerlake --output json doctor
    """
    if upgrade:
        from singerlake.engine.choice import SPARK, EngineChoice

        name = None if master == LOCAL else SPARK
        upgrade_check.run(shared, EngineChoice.of(name, start=SparkStart(master, ())))
        return
    jobs = [_no_spark()]
    if find_spec("pyspark") is not None:
        jobs = [_java(master), *_class_data(master), _spark()]
    looked = [_python(), *jobs, *_lake(shared.uri)]
    findings = [
        replace(one, found=redacted(one.found), advice=redacted(one.advice)) for one in looked
    ]
    shared.output.result(
        lambda: [asdict(finding) for finding in findings], lambda: _print(findings)
    )
    click.get_current_context().exit(max(finding.exit_code for finding in findings))


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    hang = STATE_WIDTH + width + 2
    for finding in findings:
        mark = f"{finding.state:<{STATE_WIDTH}}"
        text = f"{finding.check:<{width}}  {finding.found}"
        output.say(text, mark=mark, colour=_COLOURS[finding.state], hang=hang)
        if finding.advice:
            output.say(f"{'':<{hang}}→ {finding.advice}")


def _python() -> Finding:
    text = f"{platform.python_version()} ({sys.executable}), singerlake {__version__}"
    return Finding("Python", OK, text)


def _java(master: str) -> Finding:
    from singerlake.engine.spark.jvm import java

    try:
        chosen = java.find(master)
    except SingerlakeError as error:
        what, _, advice = str(error).partition(": ")
        return Finding("Java", PROBLEM, what, advice, error.exit_code)
    number = chosen.version if chosen.version is not None else "of an unknown version"
    text = f"{number} ({chosen.path}, from {chosen.source})"
    older = [
        f"{one.path} is Java {one.version}"
        for one in java.candidates()
        if one.version is not None and one.version < java.OLDEST
    ]
    if older:
        advice = f"skipped as too old for Spark: {'; '.join(older)}"
        return Finding("Java", NOTE, text, advice)
    return Finding("Java", OK, text)


def _class_data(master: str) -> Iterator[Finding]:
    from singerlake.engine.spark.jvm import class_data, class_path, java

    try:
        chosen = java.find(master)
        archive = class_data.archive_for(chosen.path, class_path.needed())
    except SingerlakeError:
        return  # reported already, with Java or Spark
    check = "class data"
    if not java.starts_directly(master):
        yield Finding(check, OK, f"not used: Spark's own script starts Java for {master}")
    elif archive is None:
        yield Finding(check, OK, f"not kept ({class_data.SETTING}=off, or no folder to keep it in)")
    elif (size := archive.size()) is not None:
        yield Finding(check, OK, f"{output.size(size)} in {archive.path}: Java starts faster")
    elif archive.is_refused():
        advice = f"delete {archive.refused} to try it again"
        yield Finding(check, NOTE, "this Java cannot create one, and starts slower", advice)
    elif class_data.is_training(archive):
        yield Finding(check, OK, "being created in the background; Java then starts faster")
    else:
        yield Finding(check, OK, "none yet: created in the background after the first Spark job")


def _no_spark() -> Finding:
    """Describe an installation that has only the plugins and the commands on metadata."""
    found = "not installed; large tables, staging tables and --where need it"
    return Finding("Spark", NOTE, found, install_line("pyspark"))


def _spark() -> Finding:
    version = packages.version("pyspark")
    if version.partition(".")[0] != str(SPARK):
        advice = f'pip install "pyspark>={SPARK},<{SPARK + 1}"'
        return Finding("Spark", PROBLEM, f"pyspark {version}", advice, 1)
    if home := os.environ.get("SPARK_HOME"):
        advice = "that Spark is started; unset SPARK_HOME to use the one of this Python"
        return Finding("Spark", NOTE, f"pyspark {version}, SPARK_HOME={home}", advice)
    return Finding("Spark", OK, f"pyspark {version}")


def _lake(uri: str) -> Iterator[Finding]:
    lake = None
    try:
        lake = Lake.open(uri)
        yield _format(lake)
    except SingerlakeError as error:
        yield Finding("lake", PROBLEM, *_parted(str(error)), error.exit_code)
        if isinstance(error, UsageError):
            return  # the address or a setting: there is no place to look at
    if is_remote(uri):
        yield from _bucket(uri) if uri.startswith("s3://") else _object_store(uri)
    else:
        yield from _folder(uri if lake is None else lake.store.uri)
    if lake is not None:
        yield _conditions(lake)
        where = "singerlake verify --all reads all of them, singerlake ls only their logs"
        yield Finding("tables", OK, f"not checked here: {where}")
    if not is_remote(uri):
        now = datetime.now(tz=timezone.utc)
        yield Finding("clock", OK, f"{now:%Y-%m-%d %H:%M:%S} UTC; a folder has none of its own")


def _parted(message: str) -> tuple[str, str]:
    """Split an error's message into the event and the next step."""
    what, separator, step = message.rpartition(": ")
    return (what, step) if separator else (message, "")


def _format(lake: Lake) -> Finding:
    taps = lake.taps()
    try:
        known = decode(lake.store.get(names.LAKE).data, LakeFile, names.LAKE)
    except (KeyMissingError, SingerlakeError):
        return Finding(
            "lake",
            NOTE,
            f"{lake.store.uri}: its lake file is missing or damaged, its tables may be intact",
            "singerlake rebuild --all",
        )
    many = f"{len(taps)} tap{'s'[: len(taps) != 1]}"
    text = f"{lake.store.uri}: {many} (lake file of format {known.format})"
    return Finding("lake", OK, text)


def _folder(uri: str) -> Iterator[Finding]:
    """Check that a folder can be written to, as credentials are for a bucket; and hard links."""
    folder = Path(uri.removeprefix("file://")).expanduser().absolute()
    while not folder.exists():
        folder = folder.parent
    if os.access(folder, os.W_OK | os.X_OK):
        yield Finding("credentials", OK, "none needed; the folder can be written to")
        if trouble := local_facts.hard_links(folder):
            advice = "put the lake on a file system that has them (ext4, XFS, APFS, NFS), or on S3"
            yield Finding("hard links", PROBLEM, f"{folder}: {trouble}", advice, 1)
        else:
            yield Finding("hard links", OK, "work, and never overwrite a name")
        return
    advice = "enough to read; to write, get write permission, or run as its owner"
    yield Finding("credentials", NOTE, f"{folder} cannot be written to", advice)


def _bucket(uri: str) -> Iterator[Finding]:
    from singerlake.storage.s3 import facts as s3_facts

    try:
        facts = s3_facts.look(uri)
    except SingerlakeError as error:
        yield Finding("credentials", PROBLEM, *_parted(str(error)), error.exit_code)
        return
    except Exception as error:  # noqa: BLE001  # boto3's own, of which there are many
        advice = "check AWS_PROFILE, AWS_REGION and AWS_ENDPOINT_URL"
        text = f"the AWS configuration cannot be used ({type(error).__name__})"
        yield Finding("credentials", PROBLEM, text, advice, StoreError.exit_code)
        return
    if facts.credentials is None:
        advice = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        yield Finding("credentials", PROBLEM, "none were found", advice, StoreError.exit_code)
    else:
        source = f"from {facts.credentials}, for {facts.endpoint}"
        yield Finding("credentials", OK, source)
    yield clock(facts.clock_ahead)


def _object_store(uri: str) -> Iterator[Finding]:
    from singerlake.storage.object_store import facts

    try:
        source, endpoint, ahead = facts.look(uri)
    except SingerlakeError as error:
        yield Finding("credentials", PROBLEM, *_parted(str(error)), error.exit_code)
        return
    yield Finding("credentials", OK, f"from {source}, for {endpoint}")
    yield clock(ahead)


def clock(ahead: float | None) -> Finding:
    """Describe the difference between this machine's clock and the store's."""
    if ahead is None:
        return Finding("clock", NOTE, "the store did not report its time")
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the store's"
    advice = "set this machine's clock, for example with NTP"
    if abs(ahead) >= SKEW_REFUSED:
        return Finding("clock", PROBLEM, f"{text}: the store refuses requests", advice, 1)
    if abs(ahead) >= SKEW_NOTE:
        return Finding("clock", NOTE, text, advice)
    return Finding("clock", OK, text)


def _conditions(lake: Lake) -> Finding:
    check = "conditional writes"
    if lake.store.is_open_for_writing:
        return Finding(check, OK, "honored, as in any folder")
    try:
        known = decode(lake.store.get(names.LAKE).data, LakeFile, names.LAKE).conditional_writes
    except (KeyMissingError, SingerlakeError):
        known = None
    if known is None:
        return Finding(check, NOTE, "not tested yet", "the next sync tests and records it")
    if known:
        return Finding(check, OK, "honored by this store")
    advice = "let one writer at a time write to a table, or use a store that honors them"
    return Finding(check, NOTE, "ignored by this store; writers take turns by locks", advice)
