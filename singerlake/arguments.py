"""The files that a Singer plugin's command line names, looked at before the SDK opens them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from singerlake.errors import UsageError

FROM_ENVIRONMENT = "ENV"
"""What the SDK takes for "read the settings from the environment"."""


def check_files(arguments: Sequence[str], options: Iterable[str], settings: Iterable[str]) -> None:
    """Make sure that each file can be read and is JSON, and that no setting is misspelled.

    Args:
        arguments: The command line.
        options: Those that name a file, ``--config`` first of all.
        settings: Names of the plugin's settings.

    Raises:
        UsageError: A file is not there or no JSON, or a name in ``--config`` is almost that of
            a setting. Others are let pass: orchestrators have settings of their own.
    """
    known = list(settings)
    for option, path in _named(arguments, set(options)):
        try:
            content = json.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"{option} {path} cannot be read as JSON: {error}") from error
        if option != "--config" or not isinstance(content, dict):
            continue
        for name in content.keys() - known:
            if near := difflib.get_close_matches(name, known, 1, 0.8):
                raise UsageError(f"{path} has no setting {name!r}: did you mean {near[0]!r}?")


def _named(arguments: Sequence[str], options: set[str]) -> Iterator[tuple[str, str]]:
    for place, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option in options and not equals and place + 1 < len(arguments):
            value = arguments[place + 1]
        if option in options and value not in ("", FROM_ENVIRONMENT):
            yield option, value
