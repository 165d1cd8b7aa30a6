"""``_latest.json``: what readers of plain files go by, and nothing else in their folder."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from singerlake import version
from singerlake.errors import DamagedError, NewerFormatError
from singerlake.format import times
from singerlake.publish import bounds
from singerlake.publish.projection import Projection
from singerlake.publish.published import DataFile, Position, Published

POINTER = "_latest.json"
FORMAT = 1
"""The number of the pointer's own format."""


@dataclass(frozen=True)
class Former:
    """A generation that readers who began with it may still read.

    Attributes:
        folder: Its folder, with a slash at its end.
        published: When it was published.
        replaced: When another was.
    """

    folder: str
    published: datetime
    replaced: datetime


@dataclass(frozen=True)
class FrozenFolder:
    """A frozen version that is published.

    Attributes:
        folder: Its folder, with a slash at its end.
        rows: How many rows it has.
        position: Which state that is.
    """

    folder: str
    rows: int
    position: Position


@dataclass(frozen=True)
class Pointer:
    """What a pointer says.

    Attributes:
        folder: The folder of the generation that readers see, with a slash at its end.
        published: When it was published.
        position: What it shows.
        schema: The columns of its rows.
        ordered_by: The column whose bounds its files have; None without an order.
        files: Its files; their paths begin with the folder.
        former: Earlier generations, newest first.
        versions: Frozen versions, by their numbers.
    """

    folder: str
    published: datetime
    position: Position
    schema: pa.Schema
    ordered_by: str | None
    files: Sequence[DataFile]
    former: Sequence[Former] = ()
    versions: Mapping[int, FrozenFolder] = field(default_factory=dict)

    @property
    def folders(self) -> set[str]:
        """All folders that it names, of former generations and of versions too."""
        former = {one.folder for one in self.former}
        return {self.folder} | former | {one.folder for one in self.versions.values()}

    def as_published(self, etag: str) -> Published:
        """What it says, as every destination says it."""
        versions = {number: one.folder for number, one in self.versions.items()}
        return Published(self.position, self.schema, self.files, etag, versions)

    def encode(self, projection: Projection) -> bytes:
        """Write it down, with some words on how the rows lie for people who open it."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        said = {
            "format": FORMAT,
            "written_by": f"singerlake {version.__version__}",
            "projection": projection.name,
            "folder": self.folder,
            "rows": sum(file.rows for file in self.files),
            "published_at": times.iso(self.published),
            "file_format": str(projection.target.format) if projection.target else None,
            "key": projection.key,
            "order_by": [str(one) for one in projection.order_by],
            "partition_by": [str(one) for one in projection.partition_by],
            "bounds_of": self.ordered_by,
            "position": asdict(self.position),
            "columns": {one.name: str(one.type) for one in self.schema},
            "schema": schema,
            "files": [_encode_file(file, self.folder) for file in self.files],
            "former": [
                {
                    "folder": one.folder,
                    "published_at": times.iso(one.published),
                    "replaced_at": times.iso(one.replaced),
                }
                for one in self.former
            ],
            "versions": {str(number): asdict(one) for number, one in self.versions.items()},
        }
        return json.dumps(said, indent=1, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Pointer:
        """Read one.

        Args:
            data: Its bytes.
            where: Where it lies, for messages.

        Raises:
            NewerFormatError: A newer release wrote it.
            DamagedError: It is something else.
        """
        try:
            said = json.loads(data)
            if said["format"] > FORMAT:
                raise NewerFormatError(
                    f"{where} was written by a newer Singerlake ({said.get('written_by')}): "
                    "upgrade this one"
                )
            return _decode(said, where)
        except (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException) as error:
            raise DamagedError(
                f"{where} is not as it was written: restore it, or move the whole folder away and "
                "publish again"
            ) from error


def _decode(said: dict[str, Any], where: str) -> Pointer:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"])))
    ordered_by, folder = said["bounds_of"], str(said["folder"])
    type_ = schema.field(ordered_by).type if ordered_by is not None else pa.null()
    versions = {
        int(number): FrozenFolder(
            str(one["folder"]), int(one["rows"]), _position(one["position"], where)
        )
        for number, one in said["versions"].items()
    }
    return Pointer(
        folder,
        _instant(said["published_at"]),
        _position(said["position"], where),
        schema,
        ordered_by,
        [_decode_file(one, folder, type_) for one in said["files"]],
        [
            Former(str(one["folder"]), _instant(one["published_at"]), _instant(one["replaced_at"]))
            for one in said["former"]
        ],
        versions,
    )


def _position(said: Any, where: str) -> Position:
    return Position.from_json(json.dumps(said), where)


def _instant(text: str) -> datetime:
    instant = times.parse(text)
    if instant is None:
        raise ValueError(text)
    return instant


def _encode_file(file: DataFile, folder: str) -> dict[str, Any]:
    said: dict[str, Any] = {
        "path": file.path.removeprefix(folder), "bytes": file.bytes, "rows": file.rows
    }  # fmt: skip
    if file.partition:
        said["partition"] = file.partition
    if file.low is not None:
        said |= {"low": bounds.to_json(file.low), "high": bounds.to_json(file.high)}
    if file.nulls:
        said["nulls"] = True
    return said


def _decode_file(said: dict[str, Any], folder: str, type_: pa.DataType) -> DataFile:
    return DataFile(
        f"{folder}{said['path']}",
        int(said["bytes"]),
        int(said["rows"]),
        tuple(said.get("partition", ())),
        bounds.from_json(said.get("low"), type_),
        bounds.from_json(said.get("high"), type_),
        bool(said.get("nulls", False)),
    )


def moved(file: DataFile, folder: str, to: str) -> DataFile:
    """Return what is known of a file, in another folder."""
    return replace(file, path=f"{to}{file.path.removeprefix(folder)}", facts={})
