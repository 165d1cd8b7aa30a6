"""Suggestions for a name that does not exist: the nearest few, never a wall of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SHOWN = 3
"""So many names are offered."""
ALIKE = 0.65
_WITHIN = ALIKE
_WHOLE = 0.2
"""How alike two names must be, of 1; how alike one is that lies within the other; and what is added
to that by how much of the other it is: never as much as for a slip of the pen."""
_LEAST = 3
"""Letters that a name needs to be looked for within others."""


def underscored(name: str) -> str:
    """Return a name as SQL has it without quotes: ``tap-shop`` is ``tap_shop``."""
    return re.sub(r"\W", "_", name)


def bare(name: str) -> str:
    """Return the same in any case: ``Tap-Shop`` is ``tap_shop``."""
    return underscored(name).casefold()


def nearest(wanted: str, known: Iterable[str], alike: float = ALIKE) -> list[str]:
    """Return the names that somebody who wrote another may have meant, the likeliest first.

    Names with a dot in them are compared before it and behind it: two tables are not alike for
    being of one tap.

    Args:
        alike: How alike a name must be, of 1.
    """
    scored = ((_likeness(wanted, name), name) for name in dict.fromkeys(known))
    likely = [(-likeness, name) for likeness, name in scored if likeness >= alike]
    return [name for _, name in sorted(likely)[:SHOWN]]


def offer(
    wanted: str, known: Iterable[str], none: str = "there is none", *, besides: Iterable[str] = ()
) -> str:
    """Return what to say after "it has no …": what may have been meant, else what there is.

    Args:
        wanted: The name that is not there.
        known: Those that are; a mapping says how each is shown.
        none: What to say where there are none at all.
        besides: What else may have been meant, and is not counted among what there is.
    """
    names = known if isinstance(known, Mapping) else {name: name for name in known}
    may_be = {**names, **{name: name for name in besides}}
    # A name that is there, and was meant in another way, is no answer to somebody who wrote it.
    if near := [shown for name in nearest(wanted, may_be) if (shown := may_be[name]) != wanted]:
        *others, last = near
        return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
    if not names:
        return none
    first, more = list(names.values())[:SHOWN], len(names) - SHOWN
    return f"it has {', '.join(first)}" + (f" and {more:,} more" if more > 0 else "")


def _likeness(wanted: str, name: str) -> float:
    if "." in wanted and "." in name:
        parts = zip(wanted.split(".", 1), name.split(".", 1), strict=True)
        return min(_likeness_of(bare(one), bare(other)) for one, other in parts)
    return _likeness_of(bare(wanted), bare(name))


def _likeness_of(asked: str, name: str) -> float:
    if asked == name:
        return 1.0
    from difflib import SequenceMatcher  # only where something was not found

    within = len(asked) >= _LEAST and asked in name
    least = _WITHIN + _WHOLE * len(asked) / len(name) if within else 0.0
    matcher = SequenceMatcher(None, asked, name, autojunk=False)
    if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
        return least
    return max(least, matcher.ratio())
