"""The classes of errors: a kind each for programs, which must never change."""

from __future__ import annotations

import inspect
import re

from singerlake import errors
from singerlake.errors import SingerlakeError

KINDS = {
    "SingerlakeError": ("failed", 1),
    "UsageError": ("usage", 2),
    "InvalidNameError": ("invalid_name", 2),
    "InvalidQueryError": ("invalid_query", 2),
    "NotFoundError": ("not_found", 3),
    "DroppedError": ("dropped", 3),
    "ConflictError": ("conflict", 4),
    "LockTimeoutError": ("lock_timeout", 4),
    "RequirementsError": ("requirements", 4),
    "DataError": ("data", 5),
    "DamagedError": ("damaged", 5),
    "InputError": ("invalid_input", 5),
    "MisfitsError": ("misfits", 5),
    "ViolationsError": ("violations", 5),
    "RejectedRowsError": ("rejected_rows", 5),
    "NewerFormatError": ("newer_format", 5),
    "StoreError": ("store", 1),
    "OutcomeUnknownError": ("outcome_unknown", 1),
    "NotDurableError": ("not_durable", 1),
    "RuntimeMissingError": ("runtime_missing", 1),
}
"""Others' programs go by these: add to them, and never change one."""


def test_kinds_stay() -> None:
    found = {
        name: (error.kind, error.exit_code)
        for name, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, SingerlakeError)
    }
    assert found == KINDS


def test_each_class_has_a_kind_of_its_own() -> None:
    kinds = [kind for kind, _ in KINDS.values()]
    assert len(set(kinds)) == len(kinds)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", kind) for kind in kinds)


def test_the_tree_in_the_docs_is_the_one_in_the_code() -> None:
    lines = re.findall(r"^[ │├└─]*(\w+Error) +(\d) +(\w+)  ", errors.__doc__ or "", re.MULTILINE)
    assert {name: (kind, int(code)) for name, code, kind in lines} == KINDS
