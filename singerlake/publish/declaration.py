"""Projections as people declare them: in ``projections.yml``, or in the settings of a project.

A message about what is wrong names the file and the line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from singerlake import strict_yaml
from singerlake.errors import NotFoundError, UsageError
from singerlake.format import times
from singerlake.nearest import nearest
from singerlake.publish import places, spelling
from singerlake.publish.places import Place
from singerlake.publish.projection import (
    DEFAULT_FILE_BYTES,
    Format,
    OnSchemaChange,
    Projection,
    Target,
)
from singerlake.strict_yaml import Place as InDocument

FILE = "projections.yml"
SETTING = "SINGERLAKE_PROJECTIONS"
"""The environment variable in which Meltano hands on the setting ``projections``, as JSON."""
VERSION = 1
MAX_BYTES = 16 * 1024 * 1024
SCHEMA = Path(__file__).with_name("projections.schema.json")
"""The JSON Schema for editors."""

TOP = ("version", "destinations", "projections")
_OF_PARQUET = ("none", "gzip", "zstd", "snappy", "lz4", "brotli")
COMPRESSIONS = {
    Format.PARQUET: _OF_PARQUET,
    Format.CSV: _OF_PARQUET[:3],
    Format.TSV: _OF_PARQUET[:3],
    Format.JSONL: _OF_PARQUET[:3],
    Format.AVRO: ("none", "deflate", "bzip2", "xz"),
    Format.ICEBERG: _OF_PARQUET,
    Format.DELTA: _OF_PARQUET,
}
"""What files of each format may be compressed by."""
ALL_COMPRESSIONS = tuple(dict.fromkeys(one for known in COMPRESSIONS.values() for one in known))
_OF_TARGET = ("destination", "format", "compression", "file_size", "table")

_T = TypeVar("_T")


def declared(file: Path | None = None) -> list[Projection]:
    """Give the projections that are declared: in a file, in the setting, or in projections.yml.

    Args:
        file: The file; by default the setting, else ``projections.yml`` of the Meltano project,
            or of the folder in which this runs.

    Raises:
        NotFoundError: None are declared.
        UsageError: What is declared cannot be, or there is both a setting and a file.
    """
    if file is not None:
        return read(file)
    usual = _root() / FILE
    setting = os.environ.get(SETTING, "").strip()
    if setting in ("", "{}", "[]", "null"):
        if usual.exists():
            return read(usual)
        raise NotFoundError(
            f"there is no {usual}: declare projections in it, or name another file with "
            "--projections"
        )
    if usual.exists():
        raise UsageError(
            f"projections are declared twice, in the setting projections ({SETTING}) and in "
            f"{usual}: keep one of them, or name one with --projections"
        )
    try:
        document = json.loads(setting)
    except ValueError as error:
        raise UsageError(
            f"the setting projections ({SETTING}) is not valid JSON: {error}"
        ) from None
    if isinstance(document, dict):
        document = places.unflattened(document)
    return _Reader(f"the setting projections ({SETTING})", _root().absolute()).read(document)


def read(path: Path) -> list[Projection]:
    """Read the projections of a file of YAML or JSON.

    Folders in it begin where the file lies.

    Raises:
        UsageError: It cannot be read, or declares what cannot be.
    """
    document = strict_yaml.read(path, MAX_BYTES, "projections")
    return _Reader(str(path), path.absolute().parent, document.lines()).read(document.value)


def _root() -> Path:
    return Path(os.environ.get("MELTANO_PROJECT_ROOT") or "")


@dataclass
class _Reader:
    """Reads one document.

    Attributes:
        file: What it is called, for messages.
        base: Where its folders begin.
        lines: The line of each place in it; none for a document that has no lines.
    """

    file: str
    base: Path
    lines: Mapping[InDocument, int] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def read(self, document: Any) -> list[Projection]:
        """Read all of it."""
        if isinstance(document, list):
            document = {"version": VERSION, "projections": document}
            self.lines = {("projections", *at): line for at, line in self.lines.items()}
        members = self._mapping(document, (), TOP, "a file of projections")
        version = members.get("version", VERSION if not self.lines else None)
        if version != VERSION or isinstance(version, bool):
            raise self.error(("version",), f"write version: {VERSION} at the top")
        for name, said in self._named(members.get("destinations")).items():
            at = ("destinations", name)
            fields = self._mapping(said, at, places.FIELDS, "a destination")
            self.places[name] = self._at(at, places.place, fields, self.base, os.environ)
        listed = members.get("projections")
        if not isinstance(listed, list) or not listed:
            raise self.error(("projections",), "projections must be a list of at least one")
        return [self._projection(one, ("projections", n)) for n, one in enumerate(listed)]

    def error(self, at: InDocument, text: str) -> UsageError:
        """Make an error that says where it is."""
        return UsageError(f"{self._where(at)}: {text}")

    def _where(self, at: InDocument) -> str:
        for end in range(len(at), -1, -1):
            if line := self.lines.get(at[:end]):
                return f"{self.file}, line {line}"
        path = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in at)
        return f"{self.file}, {path.lstrip('.')}" if path else self.file

    def _at(self, at: InDocument, make: Callable[..., _T], *given: Any, word: str = "") -> _T:
        """Call something, and say where it is that it could not take."""
        try:
            return make(*given)
        except UsageError as error:
            raise self.error(at, f"{word}: {error}" if word else str(error)) from None

    def _mapping(
        self, said: Any, at: InDocument, known: Sequence[str], what: str
    ) -> Mapping[str, Any]:
        if not isinstance(said, Mapping):
            raise self.error(at, f"{what} is a mapping of fields to values")
        for name in said:
            if name not in known:
                near = nearest(str(name), known)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise self.error(
                    (*at, str(name)), f"{what} has no field {str(name)[:80]!r}: {hint}"
                )
        return {name: value for name, value in said.items() if value is not None}

    def _named(self, said: Any) -> Mapping[str, Any]:
        at = ("destinations",)
        if said is None:
            return {}
        if not isinstance(said, Mapping):
            raise self.error(at, "destinations is a mapping of names to destinations")
        for name in said:
            if not isinstance(name, str):
                raise self.error(at, f"{name!r} is not text: write it in quotes")
            self._at((*at, name), spelling.name, name)
        return said

    def _projection(self, said: Any, at: InDocument) -> Projection:
        fields = self._mapping(said, at, tuple(FIELDS), "a projection")
        if "name" not in fields:
            raise self.error(at, "this projection has no name")
        name = self._field("name", fields["name"], at)
        read = {one: self._field(one, value, at, name) for one, value in fields.items()}
        table = read.pop("from", None)
        if ("sql" in read) == (table is not None):
            raise self.error(
                at,
                f"{name} has both sql and from: keep one of them"
                if "sql" in read
                else f"{name} has no sql: write a SELECT, or from: tap.stream for all of a table",
            )
        sql = read.pop("sql", table)
        from_ = "sql" if table is None else "from"
        sources = self._at((*at, from_), spelling.sources, sql, word=f"{from_} of {name}")
        target = self._target(read, at)
        if target is None and read.get("stage") is None:
            raise self.error(at, f"{name} has neither stage nor to: set one of them")
        return Projection(sql=sql, sources=sources, target=target, where=self._where(at), **read)

    def _field(self, field_: str, value: Any, at: InDocument, of: str = "") -> Any:
        word = f"{field_} of {of}" if of else field_
        return self._at((*at, field_), FIELDS[field_], value, word=word)

    def _target(self, read: dict[str, Any], at: InDocument) -> Target | None:
        """Take the fields that say where rows are published."""
        name = read["name"]
        said = {one: read.pop(one) for one in _OF_TARGET if one in read}
        to = read.pop("to", None)
        where = said.get("destination")
        if to is None and where is None:
            if said:
                word = next(iter(said))
                raise self.error((*at, word), f"{word} of {name} has no effect without to")
            return None
        place = self._place(where, at)
        if place is None:
            uri = self._at((*at, "to"), places.location, to, self.base, word=f"to of {name}")
        else:
            uri = self._at((*at, "to"), place.inside, to or name, word=f"to of {name}")
        form = said.get("format", Format.PARQUET)
        if "table" in said and form is not Format.ICEBERG:
            raise self.error(
                (*at, "table"), f"table of {name} is for format: iceberg, and this is {form}"
            )
        compression = said.get("compression")
        known = COMPRESSIONS[form]
        if compression is not None and compression not in known:
            raise self.error(
                (*at, "compression"),
                f"{form} files cannot be compressed with {compression!r}: use {', '.join(known)}",
            )
        place = place or Place(uri)
        return Target(
            uri,
            form,
            compression=compression,
            file_bytes=said.get("file_size", DEFAULT_FILE_BYTES),
            options=place.options,
            unset=place.unset,
            catalog=place.catalog if form is Format.ICEBERG else {},
            identifier=said.get("table", ""),
        )

    def _place(self, name: str | None, at: InDocument) -> Place | None:
        if name is None:
            return None
        if name not in self.places:
            near = nearest(name, self.places)
            known = ", ".join(self.places)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else f"there are {known}"
                if known
                else ("write it in destinations, with its uri")
            )
            raise self.error((*at, "destination"), f"there is no destination {name!r}: {hint}")
        return self.places[name]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{value!r} is not text: write it in quotes" if value else "it is empty")
    return value.strip()


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{str(value)[:80]!r} is neither true nor false")
    return value


def _chosen(known: Sequence[str]) -> Callable[[Any], str]:
    def choose(value: Any) -> str:
        text = _text(value)
        if text not in known:
            near = nearest(text, known)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"{text[:80]!r} is not known: {hint}")
        return text

    return choose


def _several(parse: Callable[[str], tuple[_T, ...]]) -> Callable[[Any], tuple[_T, ...]]:
    """One text, or a list of them."""

    def read_all(value: Any) -> tuple[_T, ...]:
        texts = value if isinstance(value, list) else [value]
        found = [one for text in texts for one in parse(_text(text))]
        spelling.unique([str(one) for one in found])
        return tuple(found)

    return read_all


def _size(value: Any) -> int:
    return spelling.size(str(value))


def _identifier(value: Any) -> str:
    parts = _text(value).split(".")
    if len(parts) == 1 or not all(parts):
        raise UsageError(f"{value!r} is not a table name in a catalog: write namespace.table")
    return ".".join(parts)


def _age(value: Any) -> timedelta:
    return times.age(str(value), "it")


_choose_format, _choose_on_change = _chosen(list(Format)), _chosen(list(OnSchemaChange))

FIELDS: dict[str, Callable[[Any], Any]] = {
    "name": lambda value: spelling.name(_text(value)),
    "sql": lambda value: re.sub(r"[;\s]+\Z", "", _text(value)),
    "from": lambda value: spelling.select_all(_text(value)),
    "stage": lambda value: spelling.stage(_text(value)),
    "key": _several(spelling.columns),
    "order_by": _several(spelling.order),
    "partition_by": _several(spelling.partitions),
    "to": _text,
    "destination": _text,
    "format": lambda value: Format(_choose_format(value)),
    "compression": _chosen(ALL_COMPRESSIONS),
    "file_size": _size,
    "table": _identifier,
    "incremental": _flag,
    "versions": _flag,
    "keep": _age,
    "on_schema_change": lambda value: OnSchemaChange(_choose_on_change(value)),
}
"""The fields of a projection, and how each is read."""
