"""Schema overrides of a table's columns, key and rows: its overlay, as the log keeps it.

It lies over every schema that the table has or gets, so that the tap's next SCHEMA undoes none of
it; how it does so is in ``overlaid.py``. An overlay is whole: each one replaces the one before.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class ColumnOverlay(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The override of a column, by the name that it has in the table's records.

    Attributes:
        type: What it is read as: ``text``, or as a JSON Schema says; None leaves it to the tap.
        name: What it is called; None for the name that it has.
        description: What it means, in place of what the tap says.
        default: What new rows get that have no value for it; of a column that the tap sends.
        dropped: Whether it is no column of the table.
    """

    type: Literal["text"] | dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    default: Any = msgspec.UNSET
    dropped: bool = False


class AddedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column that a person added, by the name that it has in the records that have it.

    Attributes:
        schema: The JSON Schema of its values.
        defaults: What rows show whose schema does not declare it: pairs of a block's number and
            the value from that block on, rising. The first is 0 and the initial default; the
            second the first block after the column was added, and its default then. Whatever
            blocks before that one hold under its name is not of this column.
    """

    schema: dict[str, Any]
    defaults: list[tuple[Number, Any]]

    @property
    def first_block(self) -> int:
        """The first block that may hold values of it."""
        return self.defaults[1][0]

    @property
    def default(self) -> Any:
        """The value that new rows get."""
        return self.defaults[-1][1]


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A condition for every row; a null meets all of them but ``not-null``.

    Attributes:
        kind: What it asks for.
        columns: Of which columns, by the names that people see; of all of them together where
            it is ``unique``.
        values: Those that an ``enum`` allows.
        minimum: The least value of a ``range``, or of characters in a ``length``.
        maximum: The greatest.
        pattern: The regular expression of a ``pattern``, as JSON Schema has it.
        sql: The condition of a ``check``, an expression of Spark SQL. Its columns stand in
            backticks, and nothing else does but what follows a dot.
    """

    kind: Literal["not-null", "unique", "enum", "range", "length", "pattern", "check"]
    columns: list[str]
    values: list[Any] = []
    minimum: int | float | None = None
    maximum: int | float | None = None
    pattern: str = ""
    sql: str = ""


class Overlay(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All that people said of a table.

    Attributes:
        columns: By the columns' names in the records.
        added: The columns that people added, in order, by their names in the records.
        key: The names of the key's columns, as people see them; None leaves it to the tap.
        constraints: By the names that people gave them.
    """

    columns: dict[str, ColumnOverlay] = {}
    added: dict[str, AddedColumn] = {}
    key: list[str] | None = None
    constraints: dict[str, Constraint] = {}

    @property
    def only_texts(self) -> bool:
        """Whether it only makes text of columns, which format 2 can say too."""
        return (
            all(column == TO_TEXT for column in self.columns.values())
            and not self.added
            and self.key is None
            and not self.constraints
        )

    @property
    def default_starts(self) -> list[int]:
        """The blocks from which on added columns are there, or show another default; rising."""
        every = (number for one in self.added.values() for number, _ in one.defaults)
        return sorted({number for number in every if number})


TO_TEXT = ColumnOverlay(type="text")
