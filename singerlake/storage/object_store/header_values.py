"""What goes into a header or an address, checked before obstore sees it."""

from __future__ import annotations

from collections.abc import Mapping

from singerlake.errors import UsageError


def check(values: Mapping[str, str | None]) -> None:
    """Refuse what cannot be sent: obstore panics at a line break, as a secret's file ends with.

    Args:
        values: By the name of the setting or variable that they come from.

    Raises:
        UsageError: One has a space or a character that cannot be printed.
    """
    for name, value in values.items():
        if value is not None and (not value.isprintable() or " " in value):
            raise UsageError(
                f"{name} contains a space or line break, perhaps at its end: set it again without"
            )
