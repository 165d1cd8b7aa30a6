"""Freeze many tables as one: a lake version, which names one version of each.

Tables whose state has a version keep it, the others get a new one. With a signer, each of these
versions is signed then, in a transaction of its own. The lake version comes last. A run that dies
half-way leaves versions, some of them signed, and no lake version; the next run finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from singerlake.annotations.requirement import Requirement
from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops import freeze_lake_plan as plans
from singerlake.ops.freeze import WHAT, FreezeOptions, Frozen, freeze
from singerlake.ops.freeze_lake_plan import LakeFreeze
from singerlake.ops.requirements import annotated
from singerlake.ops.requirements.check import (
    Unmet,
    check_snapshot,
    requirements_error,
    unmet_in_sql,
)
from singerlake.ops.sign.sign import SignedVersion, Signer, check_signer, sign, signature_of
from singerlake.snapshot.from_blocks import reading


@dataclass(frozen=True)
class LakeFreezeOptions:
    """The options of a freeze of many tables as one.

    Attributes:
        label: A name that can stand for the lake version's number.
        comment: Why; kept with it, and with the table versions that are made.
        again: Make a new lake version even if one names the same versions.
        allow_violations: Freeze rows that break their table's constraints, too.
        named: Tables that must not be left out, because somebody named them.
        require: Requirements that each table must meet beside those that it is annotated with,
            except dead-letter tables that nobody named; statements are run once. Unless all are
            met, no table is frozen.
        signer: Signs the version of each table, before the lake version is made.
    """

    label: str | None = None
    comment: str | None = None
    again: bool = False
    allow_violations: bool = False
    named: Sequence[TableName] = ()
    require: Sequence[str] = ()
    signer: Signer | None = None


@dataclass(frozen=True)
class LakeFrozen:
    """The result of a freeze of many tables.

    Attributes:
        version: The lake version; None if a table could not be frozen, or its version not signed.
        new: Whether it was made now.
        tables: The version of each table that has one.
        made: Which of them were made now.
        failed: What went wrong with the others, or with the signatures of their versions.
        signed: The versions with their signatures, if they were to be signed.
    """

    version: LakeVersion | None
    new: bool
    tables: Mapping[TableName, FrozenVersion]
    made: Collection[TableName]
    failed: Mapping[TableName, SingerlakeError] = field(default_factory=dict)
    signed: Mapping[TableName, SignedVersion] = field(default_factory=dict)


def plan(
    lake: Lake, tables: Callable[[], Iterable[TableName]], options: LakeFreezeOptions
) -> LakeFreeze:
    """Read the heads of one moment, and find the versions that there are.

    Args:
        tables: Lists the tables, each time anew.

    Raises:
        UsageError: The label cannot be one or is taken.
        NotFoundError: A table that is named is not there, or there is no table at all.
        ConflictError: Some table moved at every moment.
        DamagedError: A log cannot be read.
    """
    return plans.plan(
        lake.store,
        tables,
        named=options.named,
        label=options.label,
        comment=options.comment,
        allow_violations=options.allow_violations,
        again=options.again,
    )


def freeze_lake(
    lake: Lake,
    wanted: LakeFreeze,
    options: LakeFreezeOptions,
    choice: EngineChoice | None = None,
    *,
    each: Callable[[Sequence[TableName]], Iterable[TableName]] = iter,
    done: Callable[[TableName, FrozenVersion], None] = lambda _table, _version: None,
) -> LakeFrozen:
    """Make the versions that a lake version needs, and then that.

    Args:
        wanted: What :func:`plan` found.
        each: Goes through the tables that are frozen; each one before it is.
        done: Told of each version that is made, as soon as it is there.

    Raises:
        UsageError: The label was taken meanwhile.
        RequirementsError: A table does not meet a requirement.
        ConflictError: Others made lake versions faster than this one could follow.
        SingerlakeError: The signer cannot sign; nothing was frozen.
    """
    choice = choice or EngineChoice()
    required = annotated.required(
        lake.store, wanted.cut.heads, options.require, named=options.named
    )
    _check_signer(wanted, options.signer)
    _check_required(lake, wanted, required, choice)
    frozen: dict[TableName, Frozen] = {}
    failed: dict[TableName, SingerlakeError] = {}
    for name in each(wanted.missing):
        try:
            frozen[name] = _frozen(lake, name, wanted, options, required[name], choice)
        except SingerlakeError as error:
            failed[name] = error
        else:
            if frozen[name].new:
                done(name, frozen[name].version)
    versions = {**wanted.found, **{name: one.version for name, one in frozen.items()}}
    signed = _sign(lake, versions, options.signer, failed)
    versions |= {name: one.version for name, one in signed.items()}
    made = [name for name, one in frozen.items() if one.new]
    before = len(lake.lake_versions())
    version = None if failed else plans.commit_lake_version(lake.store, wanted, versions)
    new = version is not None and version.number > before
    return LakeFrozen(version, new, versions, made, failed, signed)


def _check_signer(wanted: LakeFreeze, signer: Signer | None) -> None:
    """Let the signer sign once, unless it has signed all versions already.

    Raises:
        SingerlakeError: It cannot.
    """
    if signer is None:
        return
    found = wanted.found.values()
    if wanted.missing or any(signature_of(one, signer) is None for one in found):
        check_signer(signer)


def _sign(
    lake: Lake,
    versions: Mapping[TableName, FrozenVersion],
    signer: Signer | None,
    failed: dict[TableName, SingerlakeError],
) -> dict[TableName, SignedVersion]:
    """Sign the versions, one after the other; note what went wrong in ``failed``."""
    signed: dict[TableName, SignedVersion] = {}
    if signer is None:
        return signed
    for name in sorted(versions):
        table = lake.table(name)
        try:
            signed[name] = sign(table.store, table.snapshot(), str(versions[name].number), signer)
        except SingerlakeError as error:
            failed[name] = error
    return signed


def _frozen(
    lake: Lake,
    name: TableName,
    wanted: LakeFreeze,
    options: LakeFreezeOptions,
    met: Sequence[Requirement],
    choice: EngineChoice | None,
) -> Frozen:
    """Freeze one table as it was at the cut; a version that somebody made meanwhile will do."""
    violations = options.allow_violations
    there = partial(plans.version_at_cut, cut=wanted.cut, allow_violations=violations)
    own = FreezeOptions(
        at=wanted.cut.heads[name].number,
        comment=options.comment,
        allow_violations=violations,
        met=[one.text for one in met],
        instead=there,
    )
    return freeze(lake.table(name), own, choice)


def _check_required(
    lake: Lake,
    wanted: LakeFreeze,
    required: Mapping[TableName, Sequence[Requirement]],
    choice: EngineChoice,
) -> None:
    """Check all tables, as they were at the cut, before the first is frozen.

    Raises:
        RequirementsError: One does not meet a requirement.
    """
    heads = {name: head.number for name, head in wanted.cut.heads.items()}
    found: dict[str, list[Unmet]] = {}
    for name, number in heads.items():
        of_table = [one for one in required[name] if one.measure != "sql"]
        if not of_table:
            continue
        table = lake.table(name)
        with table.lease() as lease:
            at = lease.snapshot.at(number)
            engine = choice.engine_for(reading(at), WHAT)
            if unmet := check_snapshot(engine, table, lease.snapshot, at, of_table, choice):
                found[f"{name} at transaction {number}"] = unmet
    statements = dict.fromkeys(one for each in required.values() for one in each)
    first = lake.table(next(iter(heads)))
    if unmet := [*unmet_in_sql(first, [*statements], heads, choice)]:
        found["the tables together"] = unmet
    if found:
        raise requirements_error(found)
