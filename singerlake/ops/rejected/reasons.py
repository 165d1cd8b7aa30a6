"""Reasons without values: what is not known to be free of them is hidden.

A reason is a sentence of the target or of a replay, around what a schema's validator said. Values
of the record are anywhere in that, as are names within its objects. So only what is recognised is
shown: names of columns, fixed phrases, and what the schema says after them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from singerlake.format.refused_lines import FORMATS_UNCHECKED, UNCHECKED

HIDDEN = "…"
"""What stands in the place of a value."""

_NAME = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
"""A name as Python spells it."""
_OF_STREAM = re.compile(rf"the record of stream {_NAME}(?=[,: ])")
_FIELD = re.compile(rf"field ({_NAME}): ")
_PYTHON_STRING = re.compile(r"'(?:[^'\\]|\\.)*'")
_WHOLE = re.compile(
    rf"""
    the\ record\ has\ no\ value\ for\ its\ key\ {_NAME}
    |[ ]has\ (?:null|no\ value)\ for\ its\ key\ {_NAME}(?:,\ {_NAME})*,\ so\ its\ row\ could\ not
      \ be\ identified:\ have\ the\ tap\ send\ a\ value,\ or\ choose\ another\ key
      \ \(key_properties\ in\ the\ tap,\ __key_properties__\ in\ stream_maps\)
    |[ ]has\ a\ record\ that\ is\ not\ an\ object
    |[ ]is\ not\ an\ object
    |field\ {_NAME}\ is\ missing,\ and\ the\ schema\ requires\ it
    |field\ {_NAME}\ is\ (?:null|missing),\ and\ it\ is\ of\ the\ key
    |(?:,\ )?{_NAME}\ is\ a\ required\ property
    |the\ line\ names\ another\ stream\ than\ {_NAME}
    |(?:the\ line\ )?is\ nested\ (?:too\ deeply|more\ than\ \d+\ levels\ deep)
    |the\ line\ is\ not\ (?:UTF-8\ text|a\ RECORD\ message)
    |the\ record\ is\ not\ an\ object
    |is\ not\ UTF-8\ text:\ [a-z ]+
    |its\ key\ is\ on\ the\ suppression\ list\ of\ the\ table
    |the\ table\ has\ a\ row\ of\ its\ key\ that\ is\ as\ new\ or\ newer;\ --overwrite\ replaces\ it
    |it\ belongs\ to\ version\ -?\d+\ of\ the\ stream,\ and\ the\ table\ has\ version\ -?\d+
      \ \(ACTIVATE_VERSION\);\ --overwrite\ replays\ it
    """,
    re.X | re.S,
)
"""Sentences without a value."""
_BEGINNINGS = re.compile(
    r"""
    is\ not\ JSON:\ (?:
      (?:JSON\ is\ malformed:\ [a-z ,]+\ \(byte\ \d+\)|Input\ data\ was\ truncated):\ )?
    |is\ not\ a\ Singer\ message:\ (?:
      (?:Object\ missing\ required\ field\ `\w+`|Expected\ `[a-z0-9 |]+`,\ got\ `[a-z]+`)
      (?:\ -\ at\ `\$[a-z_.]*`)?:[ ])?
    |is\ nested\ (?:too\ deeply|more\ than\ \d+\ levels\ deep):[ ]
    |has\ (?:no|an\ unknown)\ type,\ which\ must\ be\ [A-Z_, ]+\ or\ BATCH:[ ]
    |has\ a\ version\ that\ is\ not\ a\ 64-bit\ integer,\ so\ its\ table\ could\ not\ be\ read:[ ]
    |the\ line\ is\ not\ a\ RECORD\ message,\ but\ one\ of\ type[ ]
    |(?:the\ record)?\ cannot\ be\ read:[ ]
    |(?:Additional\ properties|Unevaluated\ (?:properties|items))\ are\ not\ allowed[ ]
    |False\ schema\ does\ not\ allow[ ]
    """,
    re.X,
)
"""How sentences begin whose end has values."""
_MISFIT = re.compile(
    rf"""
    (?P<before>:?\ ?the\ value\ ).*
    (?P<after>
      \ of\ column\ {_NAME}\ is\ not\ a\ valid\ [A-Za-z0-9,:() -]+?
      (?:,\ (?:so|and)\ [A-Za-z0-9_,;:' -]+)?
    )
    """,
    re.X | re.S,
)
_TYPE = r"""["'](?:null|boolean|integer|number|string|array|object)["']"""
_NUMBER = r"-?\d[\d.eE+-]*"
_ENDS = re.compile(
    rf"""
    \ (?:
      is\ not\ of\ types?\ {_TYPE}(?:,\ {_TYPE})*
      |is\ not\ valid\ under\ any\ of\ the
        (?:\ given\ schemas|\ schemas\ listed\ in\ the\ '(?:anyOf|oneOf)'\ keyword)
      |is\ valid\ under\ more\ than\ one\ of\ the\ schemas\ listed\ in\ the\ 'oneOf'\ keyword
      |is\ (?:shorter|longer)\ than\ \d+\ characters?
      |has\ (?:less|more)\ than\ \d+\ (?:items?|property|properties)
      |has\ non-unique\ elements
      |is\ too\ (?:short|long)
      |is\ expected\ to\ be\ empty
      |should\ be\ non-empty
      |does\ not\ have\ enough\ properties
      |has\ too\ many\ properties
      |is\ not\ a\ multiple\ of\ {_NUMBER}
      |is\ (?:less|greater)\ than\ (?:or\ equal\ to\ )?the\ (?:minimum|maximum)\ of\ {_NUMBER}
      |was\ expected
    )
    """,
    re.X,
)
"""What is said of a value, to its end."""
_OF_SCHEMA = (
    " is not one of ",
    " does not match ",
    " is not a ",
    " is not a multiple of ",
    " is less than ",
    " is greater than ",
    " is valid under each of ",
)
"""What is said of a value before words of the schema."""
_TAILS = tuple(f"; {one}" for one in (UNCHECKED, FORMATS_UNCHECKED))
_UNFIT = " does not fit the schema: "
"""What a replay says between a value and what the validator says."""
_WITHIN = ", at "
"""What a replay says before the place within a column."""


def without_values(reason: str, text: bytes) -> str:
    """Return the reason of a rejected line without what it quotes of the line.

    Args:
        text: The line.
    """
    tail = next((one for one in _TAILS if reason.endswith(one)), "")
    said = reason.removesuffix(tail)
    begun = stream[0] if (stream := _OF_STREAM.match(said)) else ""
    return begun + _sentence(said[len(begun) :], text) + tail


def _sentence(said: str, text: bytes) -> str:
    """Hide the values of a sentence, or of its end after the name of the stream."""
    if _WHOLE.fullmatch(said):
        return said
    if misfit := _MISFIT.fullmatch(said):
        return misfit["before"] + HIDDEN + misfit["after"]
    begun = ", " if said.startswith(", ") else ""
    if field := _FIELD.match(said, len(begun)):
        begun += f"field {_column(field[1], _members(text))}: "
        return begun + _of_value(said[field.end() :])
    return begun + _of_value(said.removeprefix(begun))


def _column(name: str, members: Iterable[str]) -> str:
    """Show the column of a place, without names within it: those of a map are data.

    Args:
        name: The place, as Python spells it.
    """
    for member in sorted(members, key=len, reverse=True):
        spelled = repr(member)
        if name == spelled:
            return name
        if name.startswith(f"{spelled[:-1]}."):
            return f"{spelled[:-1]}.{HIDDEN}{spelled[-1]}"
    return HIDDEN


def _of_value(said: str) -> str:
    """Hide the values in what a validator says: one at its beginning, or all of it."""
    if _WHOLE.fullmatch(said):  # names of missing properties are the schema's
        return said
    if begun := _BEGINNINGS.match(said):
        return begun[0] + HIDDEN
    said, within, _ = _cut(said)
    place = within and f"{within}{HIDDEN}"
    end = _value_end(said)
    if end is None:
        ends = [one[0] for one in _ENDS.finditer(said) if one.end() == len(said)]
        return HIDDEN + "".join(ends[-1:]) + place
    rest = said[end:]
    if rest.startswith(_UNFIT):
        return HIDDEN + _UNFIT + _of_value(rest.removeprefix(_UNFIT)) + place
    known = _ENDS.fullmatch(rest) or rest.startswith(_OF_SCHEMA)
    return HIDDEN + (rest if known else "") + place


def _cut(said: str) -> tuple[str, str, str]:
    """Split off the place within a column that stands behind what is said of a value."""
    end = _value_end(said) or 0
    rest, within, place = said[end:].partition(_WITHIN)
    return said[:end] + rest, within, place


def _value_end(said: str) -> int | None:
    """Return where the value ends that a sentence begins with; None if it was cut, or is none."""
    if found := _PYTHON_STRING.match(said):
        return found.end()
    try:
        return json.JSONDecoder().raw_decode(said)[1]
    except (ValueError, RecursionError):
        return None


def _members(text: bytes) -> Iterable[str]:
    """Return the names of a record's members."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if isinstance(value, dict) and isinstance(value.get("record"), dict):
        value = value["record"]
    return value.keys() if isinstance(value, dict) else ()
