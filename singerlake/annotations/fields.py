"""The annotations that a lake, a tap, a table and a column can have, and their form."""

from __future__ import annotations

import re
from typing import TypeAlias
from urllib.parse import urlsplit

from singerlake.annotations import requirement
from singerlake.errors import UsageError
from singerlake.format import times

Value: TypeAlias = str | list[str] | None

MAX_TEXT = 64 * 1024
"""Longest text: the lake's file is read by every command."""
LISTS = ("tags", "requirements")
"""Fields that hold several texts."""
MOST = 100
"""Texts in one of them."""
SCHEMES = ("http", "https", "mailto")
DEPRECATED = "yes"
"""What stands where something is deprecated and nobody said why."""

OF_COLUMNS = ("owner", "description", "documentation", "tags", "classification", "deprecated")
OF_JOBS = ("job_url", "job_status", "freshness", "requirements")
FIELDS = {
    "lake": OF_COLUMNS + OF_JOBS,
    "tap": OF_COLUMNS + OF_JOBS,
    "table": OF_COLUMNS + OF_JOBS,
    "column": OF_COLUMNS,
}
"""Which fields there are, by what they are said of."""

_URLS = ("documentation", "job_url")
# Characters that no file of JSON or YAML should hold; ends of lines and tabs may be in a text.
_UNFIT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def checked(field: str, value: object, about: str) -> Value:
    """Bring a field's value into the form in which it is kept.

    Args:
        field: One of :data:`FIELDS`.
        value: As a person wrote it; empty, false and None clear the field.
        about: What it is said of, for an error.

    Raises:
        UsageError: The field cannot hold it.
    """
    where = f"{field} of {about}"
    if field in LISTS:
        return _list(value, field, where)
    if field == "deprecated" and isinstance(value, bool):
        return DEPRECATED if value else None
    if value is None or value is False:
        return None
    text = _text(value, where)
    if field in _URLS and text:
        _check_url(text, where)
    if field == "freshness" and text:
        times.age(text, where)
    return text or None


def is_url(text: str) -> bool:
    """Tell whether a text may become a link."""
    try:
        _check_url(text, "")
    except UsageError:
        return False
    return True


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where} is not text: write it in quotes")
    text = value.strip()
    if len(text) > MAX_TEXT:
        raise UsageError(f"{where} has {len(text):,} characters: at most {MAX_TEXT:,} fit")
    if match := _UNFIT.search(text):
        raise UsageError(f"{where} has the character U+{ord(match[0]):04X}, which is not text")
    return text


def _list(value: object, field: str, where: str) -> list[str]:
    if value is None or value is False:
        return []
    if not isinstance(value, list):
        raise UsageError(f"{where} is not a list: write it as [first, second]")
    texts = list(dict.fromkeys(filter(None, (_text(one, where) for one in value))))
    if len(texts) > MOST:
        raise UsageError(f"{where}: {len(texts)} {field}, and at most {MOST} fit")
    if field == "requirements":
        requirement.parse_all(texts)
    return texts


def _check_url(text: str, where: str) -> None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # read from the text only now
    except ValueError as error:
        raise UsageError(f"{where} is not a URL: {error}") from None
    if parts.scheme not in SCHEMES or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise UsageError(
            f"{where} is {text[:80]!r}: a link begins with https:, http: or mailto:, "
            "and has no spaces"
        )
    if parts.password is not None:
        raise UsageError(f"{where} holds a password, which everyone could read: leave it out")
    if not (parts.path if parts.scheme == "mailto" else parts.hostname):
        raise UsageError(f"{where} is {text[:80]!r}: it names no place")
