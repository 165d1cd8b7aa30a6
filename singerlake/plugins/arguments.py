"""What a Singer plugin's command line gives: settings, and files of JSON, each read once.

The SDK reads ``--config`` from files only, and ends in a traceback over anything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from singerlake import small_files
from singerlake.errors import UsageError
from singerlake.nearest import nearest, offer
from singerlake.safe_text import (
    SECRET_SETTINGS,
    remember_key_id,
    remember_password,
    remember_secrets,
)
from singerlake.storage.options import SECRETS

_ALMOST = 0.8
"""How alike a name must be to one of a setting, of 1, to be taken for a slip of the pen."""
FROM_ENVIRONMENT = "ENV"
"""What the SDK takes for "read the settings from the environment"."""


def read_settings(values: Iterable[str], names: Iterable[str]) -> dict[str, Any]:
    """Read the settings that ``--config`` options give; a later one wins over an earlier one.

    Args:
        values: What stands behind each ``--config``: a path, which may be that of a pipe, or the
            settings themselves as a JSON object.
        names: Of the plugin's settings.

    Raises:
        UsageError: A file is not there, something is no JSON object, or a name is almost that of
            a setting. Others are let pass: orchestrators have settings of their own.
    """
    known = list(names)
    settings: dict[str, Any] = {}
    for value in values:
        if value == FROM_ENVIRONMENT:
            continue
        if not value.strip():
            raise UsageError("--config is empty: give a path, or settings as JSON")
        if value.lstrip().startswith("{"):
            where = "the text behind --config"  # and never the text itself: it may hold secrets
            content = parse_json(value, where)
        else:
            where = f"--config {value}"
            content = read_json(Path(value), where)
        if not isinstance(content, dict):
            raise UsageError(
                f'{where} contains no settings: write them as an object, {{"lake": "./lake"}}'
            )
        for name in content.keys() - known:
            if nearest(name, known, alike=_ALMOST):
                raise UsageError(f"{where} has no setting {name!r}: {offer(name, known)}")
        settings.update(content)
    return settings


def read_json(path: Path, where: str) -> Any:
    """Read a file of JSON.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        data = small_files.read(path, "settings")
    except (OSError, ValueError) as error:  # a name with NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{where} cannot be read: {reason}") from error
    return parse_json(data, where)


def parse_json(text: str | bytes, where: str) -> Any:
    """Read a JSON text.

    Raises:
        UsageError: It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} cannot be read as JSON: {error}") from error


def check_secrets(config: Mapping[str, Any]) -> None:
    """Hide the secrets among a plugin's settings from now on, and refuse those that are no text.

    The code that checks the settings after this would repeat the value.

    Raises:
        UsageError: A secret is not text.
    """
    given = {name: config.get(name) for name in SECRET_SETTINGS}
    remember_key_id(given[SECRET_SETTINGS[0]])
    remember_secrets(given[name] for name in SECRET_SETTINGS[1:])
    for name in ("aws_endpoint_url", "gcs_endpoint_url", "azure_endpoint_url"):
        remember_password(str(config.get(name)))
    if isinstance(own := config.get("batch_s3"), dict):
        remember_key_id(own.get(SECRET_SETTINGS[0]))
        remember_secrets(own.get(name) for name in SECRETS - {SECRET_SETTINGS[0]})
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name} is not text: set it again, in quotes")
