"""Lake versions as commands take and show them: many tables frozen as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from singerlake.errors import DataError, InvalidNameError, SingerlakeError, UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.signed_text import covers, key_of
from singerlake.lake import Lake, Table
from singerlake.log import lake_log, not_copied
from singerlake.nearest import bare, offer
from singerlake_cli import output
from singerlake_cli.shared import Shared
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.ops.freeze_lake import LakeFreezeOptions, LakeFrozen
    from singerlake.ops.point import Pointed
    from singerlake.ops.sign.sign import SignedVersion

DROPPED_FIRST = ("by", "tables", "rows", "proof")
"""Columns that a narrow terminal leaves out, those that matter least first."""


_SELDOM = ("previous", "stands_for", "rewritten")


@dataclass(frozen=True)
class Chosen:
    """The tables that the command line names.

    Attributes:
        listed: Lists them again at each call.
        named: Those that are named one by one, each once.
        alone: Whether it is one table that is named, and nothing else, however often.
    """

    listed: Callable[[], set[TableName]]
    named: Sequence[TableName]
    alone: bool = False


def choose(lake: Lake, texts: Sequence[str], *, every: bool) -> Chosen:
    """Find the tables that are meant by taps and tables, or by ``--all``.

    Raises:
        InvalidNameError: A text is neither a tap of the lake nor a table.
        NotFoundError: The lake has no such table.
        UsageError: A version is named.
    """
    if every:
        return Chosen(lambda: set(lake.tables()), ())
    taps: list[str] = []
    named: list[TableName] = []
    for text in texts:
        if "." not in text:
            taps.append(tap_named(lake, text))
            continue
        table, ref = lake.find(text)
        if ref.version is not None:
            raise UsageError(f"{ref} is a version: name the table, whose head is frozen")
        if table.name not in named:
            named.append(table.name)
    alone = len(named) == 1 and not taps
    return Chosen(
        lambda: {*named, *(one for tap in taps for one in lake.tables(tap))}, named, alone
    )


def tap_named(lake: Lake, text: str) -> str:
    """Return the tap that a text without a dot means; a dash may be written as an underscore.

    Raises:
        InvalidNameError: The lake has none, or several, of this name.
    """
    taps = lake.taps()
    like = [text] if text in taps else [tap for tap in taps if bare(tap) == bare(text)]
    if len(like) != 1:
        raise InvalidNameError(
            f"{text!r} is not a tap of the lake, and a table is written as tap.stream: "
            f"{offer(text, taps, 'the lake is empty')}"
        )
    return like[0]


def freeze_many(
    shared: Shared, lake: Lake, chosen: Chosen, options: LakeFreezeOptions, choice: EngineChoice
) -> None:
    """Freeze tables as one lake version; each that has no version of its state gets one.

    Raises:
        SingerlakeError: Nothing was frozen. Tables that could not be frozen are told of instead.
    """
    from singerlake.ops.freeze_lake import freeze_lake, plan  # late: lists need none

    with working("waiting for a moment at which no table changes"):
        wanted = plan(lake, chosen.listed, options)
    if wanted.missing:
        with working(f"freezing {output.count(len(wanted.missing), 'table')}") as bar:
            each = partial(bar.each, weigh=partial(_size, lake))
            done = freeze_lake(lake, wanted, options, choice, each=each)
    else:
        done = freeze_lake(lake, wanted, options, choice)
    shared.output.result(lambda: _frozen_json(done), lambda: _print_frozen(done))
    if done.version is not None and not done.new:
        note_comment(shared, done.version.comment, options.comment)
    for name, error in done.failed.items():
        shared.output.error(error, name)
    if done.failed:
        shared.output.note(
            "no lake version was created: the versions that exist stay, and the next run reuses "
            "them if their tables have not changed"
        )
        if unsigned := [f"{name}.{done.tables[name].number}" for name in _unsigned(done)]:
            shared.output.note(
                f"not signed: {', '.join(unsigned)}: run this command again, or sign them with: "
                f"singerlake sign {' '.join(unsigned)} --key FILE"
            )
        click.get_current_context().exit(max(error.exit_code for error in done.failed.values()))


def _unsigned(done: LakeFrozen) -> list[TableName]:
    """Return the tables whose versions are there and could not be signed."""
    return sorted(done.failed.keys() & done.tables.keys())


def _size(lake: Lake, name: TableName) -> int:
    with suppress(SingerlakeError):  # freezing it says so
        return sum(block.bytes for block in lake.table(name).snapshot().blocks)
    return 0


def note_comment(shared: Shared, kept: str | None, comment: str | None) -> None:
    """Warn that a version that existed does not get the new comment."""
    if comment is not None and comment != kept:
        shared.output.note(
            "the comment was ignored, because the version already existed: add --again to create "
            "another version with it"
        )


def _frozen_json(done: LakeFrozen) -> dict[str, Any]:
    return {
        "lake_version": None if done.version is None else as_json(done.version),
        "new": done.new,
        "tables": [
            {"table": str(name), "new": name in done.made, **version_json(done.tables[name])}
            for name in sorted(done.tables)
        ],
    }


def _print_frozen(done: LakeFrozen) -> None:
    for name in sorted(done.tables):
        output.say(frozen_words(name, done.tables[name], new=name in done.made))
        if name in done.signed:
            output.say(signed_words(name, done.signed[name]))
    if (version := done.version) is not None:
        output.say(
            f"{version}: {output.count(len(version.tables), 'table')}, "
            f"{output.count(version.rows, 'row')}, cut at {output.clock(version.cut)} UTC, "
            f"fingerprint {output.short_proof(version.fingerprint)}" + _THERE * (not done.new)
        )


_THERE = "; it already existed"


def frozen_words(table: TableName, version: FrozenVersion, *, new: bool = True) -> str:
    """Describe a table's version, and whether it existed before."""
    name = f" ({version.label})" if version.label else ""
    return (
        f"{table} version {version.number}{name}: {output.count(version.rows, 'row')}, "
        f"transaction {version.transaction}, "
        f"fingerprint {output.short_proof(version.fingerprint)}"
        + (f"; it violates {', '.join(version.violations)}" if version.violations else "")
        + _THERE * (not new)
    )


def pointer_words(table: TableName, done: Pointed) -> str:
    """Describe which version a pointer names now, and which it named before."""
    name = f"{table}@{done.name}"
    if done.version is None:
        return f"{name} is removed; it pointed to version {done.before}"
    if done.transaction is None:
        return f"{name} already points to version {done.version.number}"
    before = "" if done.before is None else f" (before: version {done.before})"
    return f"{name} now points to version {done.version.number}{before}"


def version_json(version: FrozenVersion) -> dict[str, Any]:
    """Return a table's version for scripts, with the key of each signature.

    Nothing is checked: ``current`` is whether a signature says what the version is now.
    """
    signed = [
        {**structs.asdict(one), "key": key_of(one.signature), "current": covers(version, one)}
        for one in version.signed
    ]
    return {**structs.asdict(version), "signed": signed}


def signed_words(table: TableName, done: SignedVersion) -> str:
    """Describe the signature of a version."""
    key = key_of(done.signature.signature)
    name = f"{table} version {done.version.number}"
    if not done.new:
        return f"{name} has a signature of {key} already (transaction {done.signature.transaction})"
    return f"{name} is signed with {key} (transaction {done.signature.transaction})"


def as_json(version: LakeVersion) -> dict[str, Any]:
    """Return a lake version for scripts, without fields that do not apply."""
    members = structs.asdict(version)
    return {name: value for name, value in members.items() if value or name not in _SELDOM}


def show_all(shared: Shared, lake: Lake) -> None:
    """List the lake's versions, with the errors of those that cannot be read."""
    versions, wrong = lake_log.look(lake.store)
    absences = _absences(lake, wrong) if versions else {}
    absent = {v.number: absences.get(not_copied.entry_of(v), frozenset()) for v in versions}
    said = [not_copied.words(v, absent[v.number]) for v in versions if absent[v.number]]
    columns = (
        "version>",
        "label",
        "tables>",
        "rows>",
        "proof",
        "cut (UTC)",
        "by",
        "comment~",
    )
    rows = [
        (
            v.number,
            v.label,
            len(v.tables),
            f"{v.rows:,}",
            output.short_proof(v.fingerprint),
            output.clock(v.cut),
            v.by,
            v.comment,
        )
        for v in versions
    ]
    note = (
        "cut: the moment at which all tables had these contents · --lake-version VERSION "
        "shows its tables"
    )

    def print_versions() -> None:
        if rows:
            output.print_table("lake versions", columns, rows, note, *said, drop=DROPPED_FIRST)
        else:
            output.say("the lake has no lake versions; to create one: singerlake freeze --all")
            output.say("to list a table's versions: singerlake versions TABLE")

    shared.output.result(
        lambda: [
            {**as_json(v), **({"not_copied": named} if (named := _named(absent[v.number])) else {})}
            for v in versions
        ],
        print_versions,
    )
    _end(shared, wrong)


def _end(shared: Shared, wrong: Sequence[SingerlakeError]) -> None:
    for error in wrong:
        shared.output.error(error)
    click.get_current_context().exit(max((error.exit_code for error in wrong), default=0))


def _absences(lake: Lake, wrong: list[SingerlakeError]) -> not_copied.Absences:
    """Return the absences of a copy's lake versions; if they are damaged, none and the error."""
    try:
        return not_copied.read(lake.store)
    except DataError as error:
        wrong.append(error)
        return {}


def _named(tables: Iterable[TableName]) -> list[str]:
    return [str(table) for table in sorted(tables)]


def show_one(shared: Shared, lake: Lake, name: str) -> None:
    """List the tables of a lake version, with the reasons why some cannot be read."""
    from singerlake.ops.verify.lake import what_became  # late: other lists need none

    version = lake.lake_version(name, whole=False)
    wrong: list[SingerlakeError] = []
    left_out = _absences(lake, wrong).get(not_copied.entry_of(version), frozenset())
    said = {table.name: table for table in version.tables}

    def look(table: Table) -> str | None:
        return what_became(lake.store, said[table.name], left_out=table.name in left_out)

    looked = lake.each(said, look)
    gone = {table: str(words) for table, words in looked if words is not None}
    rows = [
        (t.name, t.version, t.transaction, t.head, f"{t.rows:,}", output.short_proof(t.fingerprint))
        for t in version.tables
    ]
    columns = ("table", "version>", "of>", "head>", "rows>", "proof")
    lost = [
        f"{table} cannot be read any more: {words}"
        for table, words in gone.items()
        if table not in left_out
    ]
    if absent := left_out & gone.keys():
        lost.append(not_copied.words(version, absent))
    note = (
        f"cut at {output.clock(version.cut)} UTC, when head was each table's last transaction · "
        f"of: the transaction of the version, of the same rows · fingerprint {version.fingerprint}"
    )
    erased = [
        f"rows of {one.tap}.{one.stream} were erased (announced by transaction {one.transaction}): "
        "earlier fingerprints of it, and of this lake version, are no longer valid"
        for one in version.rewritten
    ]
    drop = ("head", "of", "proof")
    shared.output.result(
        lambda: {
            **as_json(version),
            "tables": [
                {**structs.asdict(one), "gone": gone[table]}
                if table in gone
                else structs.asdict(one)
                for table, one in said.items()
            ],
        },
        lambda: output.print_table(str(version), columns, rows, note, *lost, *erased, drop=drop),
    )
    _end(shared, wrong)
