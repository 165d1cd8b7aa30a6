"""Check signatures of versions against the log, and against a list of signers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from singerlake.format.log import Entry, FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.signed_text import covers, signed_text, signing_key
from singerlake.format.version_notes import SignatureNote
from singerlake.log import versions
from singerlake.log.table_state import TableState
from singerlake.ops.verify.problems import CheckedSignature, Problem, Report


class Signers(Protocol):
    """The signers whose signatures count."""

    def signer(self, text: bytes, signature: str, time: str) -> tuple[str | None, str]:
        """Return who signed a text, and, if that is none of the signers, why."""


def check_signatures(
    head: TableState, wanted: Sequence[FrozenVersion], signers: Signers, report: Report
) -> None:
    """Check that each version has a signature of a signer that covers what it is now.

    Args:
        head: The table.
        wanted: Its versions that must be signed. Without any, nothing of the table is.
        report: Gets the signatures, and a problem for each version without one.
    """
    for version in wanted:
        found = [_checked(head.table, version, note, signers) for note in version.signed]
        report.signatures += found
        if not any(one.signer and one.current for one in found):
            where, hint = f"version {version.number}", _hint(head.table, version)
            report.add([Problem("signer", where, _EXPECTED, _why(found), hint)])
    if not wanted and not head.dropped_at and not report.dropped:
        hint = f"freeze it with: singerlake freeze {head.table} --sign KEY"
        report.add([Problem("signer", "versions", "a signed version", "no version", hint)])


_EXPECTED = "a signature of an allowed signer"


def _hint(table: TableName, version: FrozenVersion) -> str:
    return f"if it is right, sign it with: singerlake sign {table}.{version.number} --key KEY"


def _checked(
    table: TableName, version: FrozenVersion, note: SignatureNote, signers: Signers
) -> CheckedSignature:
    try:
        key = signing_key(note.signature)
        text = signed_text(table, version, note)
        signer, why = signers.signer(text, note.signature, note.time)
    except ValueError as error:
        key, signer, why = "no key", None, str(error)
    return CheckedSignature(
        version=version.number,
        transaction=note.transaction,
        key=key,
        signer=signer,
        why=why,
        rows=note.rows,
        current=covers(version, note),
        time=note.time,
    )


def _why(found: Sequence[CheckedSignature]) -> str:
    earlier = [one for one in found if one.signer and not one.current]
    if earlier:
        return f"one by {earlier[-1].signer} of what it was before rows were erased"
    return "; ".join(f"one by {one.key}: {one.why}" for one in found) or "none"


def check_notes(head: TableState, entries: Sequence[Entry]) -> Iterator[Problem]:
    """Check what signatures cover against the log; whose they are needs the list of signers.

    Args:
        entries: The whole log, up to the head.
    """
    for version in versions.known(head):
        for note in version.signed:
            where = head.table.transaction(note.transaction)
            for expected, found in _differences(version, note, entries):
                yield Problem("signer", where, expected, found)


def _differences(
    version: FrozenVersion, note: SignatureNote, entries: Sequence[Entry]
) -> Iterator[tuple[str, str]]:
    try:
        signing_key(note.signature)
    except ValueError as error:
        yield "a signature", str(error)
    if not 1 <= note.head < note.transaction:
        yield "an earlier transaction as its head", str(note.head)
    elif (entry := entries[note.head - 1]).hash and entry.chain != note.chain:
        yield f"the chain id of transaction {note.head}, {entry.chain}", note.chain
    later = next((one for one in version.erased if one.transaction > note.transaction), None)
    if later is None and not covers(version, note):
        yield f"the content of version {version.number}", "a hash of other content"
    if later is not None and later.rows_before != note.rows:
        yield f"{later.rows_before} rows, of which some were erased later", str(note.rows)
