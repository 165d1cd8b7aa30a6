"""The file that lists the problems of given rows, as CSV or as JSON lines."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec

from singerlake.errors import UsageError
from singerlake.new_file import NewFile
from singerlake.quantities import count
from singerlake.rows.batches.problems import Problem, Problems

_COLUMNS = Problem.__struct_fields__
_FORMS = (".csv", ".jsonl")


def rejects_file(path: Path | None, *, force: bool) -> NewFile | None:
    """Prepare the file, before there is anything to write into it.

    Raises:
        UsageError: It cannot be written, or its name tells no format.
    """
    if path is None:
        return None
    if path.suffix.lower() not in _FORMS:
        raise UsageError(
            f"the name {path} does not specify a format: end it in {' or '.join(_FORMS)}"
        )
    return NewFile(path, force=force)


def write_rejects(file: NewFile, problems: Problems) -> str:
    """Write the problems, and return a note about them.

    If more problems were found than were kept, the last line of the file gives their number.

    Raises:
        StoreError: It cannot be written.
        UsageError: Another process has made a file of this name in the meantime.
    """
    listed = len(problems.first)
    rows, more = [*problems.first], ""
    if problems.total > listed:
        more = f", the first of {problems.total:,}"
        rest = f"and {problems.total - listed:,} more, not listed: correct these first"
        rows.append(Problem("", None, None, None, rest))
    with file.writing() as path, path.open("w", encoding="utf-8", newline="") as out:
        if file.path.suffix.lower() == ".csv":
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows([getattr(one, name) for name in _COLUMNS] for one in rows)
        else:
            out.writelines(f"{msgspec.json.encode(one).decode()}\n" for one in rows)
    return f"{file.path} lists {count(listed, 'problem')}{more}"
