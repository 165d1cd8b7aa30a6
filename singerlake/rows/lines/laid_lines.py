"""A block's lines as people see the table: by its overlay, for whoever reads the stream elsewhere.

Members are renamed, left out, and get what the table shows in columns that people added. Whatever
the overlay says nothing of keeps its bytes, and so does a whole block of which it says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from singerlake.format import messages, rewritten
from singerlake.format.json_schema import resolved
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.overlaid import laid, member_of, names_of
from singerlake.format.overlay import ColumnOverlay, Overlay
from singerlake.format.types import Kind, Type, columns_of, never_fails, type_of
from singerlake.format.values import converter
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.casts import text_as
from singerlake.rows.columns import canonical_text
from singerlake.rows.lines.members import patched
from singerlake.rows.lines.written_defaults import AddedDefaults


class _Line(msgspec.Struct):
    type: str
    record: dict[str, msgspec.Raw] = {}


_LINE = msgspec.json.Decoder(_Line)
_TEXT = msgspec.json.Decoder(str)
_AS_THE_TAP_SAYS = ColumnOverlay()


@dataclass
class LaidLines:
    """Lays a table's overlay over the lines of its blocks.

    Columns are those of the table as it is read; key and constraints those of the time when rows
    came, for older rows need not keep what was asked later.

    Attributes:
        snapshot: The table, as far as it is read.
        overlay: What lies over the lines: its ``outgoing_overlay``.
    """

    snapshot: TableState
    overlay: Overlay
    _schemas: dict[str, _Members] = field(default_factory=dict)

    def entry(self, schema_hash: str, transaction: int) -> SchemaEntry:
        """Return a schema and key as they go out.

        Args:
            schema_hash: The schema that rows were written under.
            transaction: The transaction that brought them.
        """
        then, now = self.snapshot.overlay_at(transaction), self.overlay

        def names(columns: list[str]) -> list[str]:
            members = [member_of(then, name) for name in columns]
            return [now.columns.get(m, _AS_THE_TAP_SAYS).name or m for m in members]

        rules = {
            title: replace(one, columns=names(one.columns))
            for title, one in then.constraints.items()
        }
        key = None if then.key is None else names(then.key)
        entry = self._without_homonyms(self.snapshot.schema_of(schema_hash), transaction)
        return laid(entry, replace(now, key=key, constraints=rules))

    def _without_homonyms(self, entry: SchemaEntry, transaction: int) -> SchemaEntry:
        """Return a schema that says of an added column what the table does.

        It may declare one of the same name that was dropped before: no row shows its values.
        """
        last = self.snapshot.summary(transaction).last_block
        later = {m: one for m, one in self.overlay.added.items() if last < one.first_block}
        schema = resolved(entry.schema, entry.schema) if later else {}
        own = schema.get("properties")
        if not isinstance(own, dict) or later.keys().isdisjoint(own):
            return entry
        specs = {
            member: {**one.schema, **({} if one.default is None else {"default": one.default})}
            for member, one in later.items()
            if member in own
        }
        schema = {**schema, "properties": {**own, **specs}}
        if isinstance(required := schema.get("required"), list):
            schema["required"] = [name for name in required if name not in later]
        return SchemaEntry(schema, entry.key_properties)

    def block(self, block: Block, text: bytes) -> bytes:
        """Return a block's lines as they go out.

        Args:
            text: Its lines, the SCHEMA first; some may be left out.

        Raises:
            DamagedError: A line is no Singer message.
        """
        end = text.find(b"\n") + 1
        number = self.snapshot.transaction_of_block(block.lowest_version)
        head = self._schema_line(text[:end], self.entry(block.schema_hash, number))
        members = self._schemas.get(block.schema_hash)
        if members is None:
            members = _Members.of(self.snapshot, self.overlay, block.schema_hash)
            self._schemas[block.schema_hash] = members
        if not members.touches(block) and not members.may_have_undeclared(text[end:]):
            return head + text[end:]
        return b"".join((head, *self._lines(block, text, end, members)))

    def _lines(self, block: Block, text: bytes, start: int, members: _Members) -> list[bytes]:
        positions = rewritten.positions(text, block) if block.rewritten else ()
        versions = iter([version for version, _ in positions])
        lines = []
        for line in text[start:].splitlines():
            message = _LINE.decode(line)
            if message.type != "RECORD":
                lines.append(line + b"\n")
                continue
            version = next(versions, block.number)
            changed = members.changed(message.record, version)
            lines.append((patched(line, changed) if changed else line) + b"\n")
        return lines

    @staticmethod
    def _schema_line(line: bytes, entry: SchemaEntry) -> bytes:
        message = json.loads(line)
        if message.keys() <= {"type", "stream", "schema", "key_properties"}:
            return messages.schema_line(message["stream"], entry)
        message["schema"], message["key_properties"] = entry.schema, entry.key_properties
        return json.dumps(message, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class _Members:
    """The changes to the members of records under one schema.

    Attributes:
        renamed: The names that they get.
        dropped: Those that go.
        typed: How values become those of another type.
        added: Columns that people added, with the names that people see.
        undeclared: Names that people gave to columns and the schema does not declare. What a
            record has under one of these was never of that column.
    """

    renamed: dict[str, str]
    dropped: frozenset[str]
    typed: dict[str, Callable[[bytes], bytes]]
    added: tuple[tuple[str, AddedDefaults], ...]
    undeclared: frozenset[str]

    @classmethod
    def of(cls, snapshot: TableState, overlay: Overlay, schema_hash: str) -> _Members:
        own = dict(columns_of(snapshot.schema_of(schema_hash), snapshot.rules))
        shown = names_of(own, overlay)
        added = []
        for member, one in overlay.added.items():
            said = overlay.columns.get(member, _AS_THE_TAP_SAYS)
            name = said.name or member
            if member in own or name not in shown.values():
                defaults = AddedDefaults.of(member, one, declared=member in own)
                added.append((name, defaults))
        given = {said.name for said in overlay.columns.values() if said.name is not None}
        given |= {name for name, _ in added}
        types = {m: said.type for m, said in overlay.columns.items() if m in shown}
        return cls(
            renamed={member: name for member, name in shown.items() if name != member},
            dropped=frozenset(own) - shown.keys(),
            typed={
                m: _becoming(own[m], type_of(t)) for m, t in types.items() if isinstance(t, dict)
            },
            added=tuple(added),
            undeclared=frozenset(given) - own.keys(),
        )

    def may_have_undeclared(self, lines: bytes) -> bool:
        """Tell whether lines may have a member under a name that people gave to another column.

        Args:
            lines: RECORD lines and others.
        """
        if not self.undeclared:
            return False
        # Spelled with an escape, a name may look like anything.
        return b"\\" in lines or any(b'"%b"' % one.encode() in lines for one in self.undeclared)

    def touches(self, block: Block) -> bool:
        """Tell whether any line of a block may be another than it was."""
        if self.renamed or self.dropped or self.typed:
            return True
        first = block.lowest_version
        return any(
            one.default(version) not in (None, b"null") or one.homonym(version)
            for _, one in self.added
            for version in (first, block.number, *(s for s in one.starts if first < s))
        )

    def changed(self, record: dict[str, msgspec.Raw], version: int) -> dict[str, bytes | None]:
        """Return the members of a record that are others as people see it; None for one that goes.

        Args:
            version: The block that the row came in.
        """
        changed: dict[str, bytes | None] = {}
        for member in (self.dropped | self.undeclared) & record.keys():
            changed[member] = None
        for member, turn in self.typed.items():
            if (raw := record.get(member)) is not None and (text := turn(bytes(raw))) != raw:
                changed[member] = text
        for member, name in self.renamed.items():
            if (raw := record.get(member)) is not None:
                changed[name] = changed.pop(member, None) or bytes(raw)
                changed[member] = None
        for name, one in self.added:
            if (value := one.default(version)) is None:
                continue
            if value != b"null":
                changed[name] = value
            elif one.name in record and one.homonym(version):
                changed[one.name] = None
        return changed


def _becoming(own: Type, type_: Type) -> Callable[[bytes], bytes]:
    """Make what turns a value's JSON into that of another type; one that cannot be stays.

    As in the table, a value is read by its own type first where all of that type can become the
    other.
    """
    read_own = converter(own) if own != type_ and never_fails(own, type_) else None
    read_value = converter(type_, loose=True)

    def turn(raw: bytes) -> bytes:
        text = raw
        if type_.kind in (Kind.STRUCT, Kind.LIST) and raw[:1] == b'"':
            text = _TEXT.decode(raw).encode()
        try:
            if read_own is not None and (value := read_own(text)) is not None:
                text = text_as(value, own, type_)
            value = read_value(text)
        except ValueError:
            return raw
        return b"null" if value is None else canonical_text.value_text(value, type_).encode()

    return turn
