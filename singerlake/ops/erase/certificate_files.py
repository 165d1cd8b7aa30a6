"""The files of an erasure's certificate: JSON, one HTML page, and the signature of the JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from singerlake.errors import UsageError
from singerlake.format.signed_text import armored
from singerlake.lake import Lake
from singerlake.new_file import NewFile
from singerlake.ops.erase.certificate import certificate
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.published_places import published_places
from singerlake.ops.erase.table import EraseRequest
from singerlake.ops.erase.tables import Erased

Sign = Callable[[bytes], str]


class CertificateFiles:
    """The files of a certificate: FILE.json, FILE.html and, with a signature, FILE.json.sig.

    Args:
        file: Their name, with or without ``.json`` or ``.html``.
        signed: Whether the JSON is signed.

    Raises:
        UsageError: One of them is there, or there is no folder for them.
    """

    def __init__(self, file: Path, *, signed: bool) -> None:
        stem = file.with_suffix("") if file.suffix in (".json", ".html") else file
        if not stem.name:
            raise UsageError(f"{file} is not a name for a certificate: name a file")
        names = [".json", ".html", *([".json.sig"] if signed else [])]
        self._files = {name: NewFile(Path(f"{stem}{name}"), force=None) for name in names}

    @property
    def paths(self) -> list[Path]:
        """Their paths."""
        return [file.path for file in self._files.values()]

    def write(self, found: Mapping[str, Any], sign: Sign | None) -> None:
        """Write them.

        Raises:
            SingerlakeError: They cannot be written, or the signer failed.
        """
        from singerlake.site.certificate import page  # late: it imports jinja2

        data = (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()
        signature = armored(sign(data)) if sign is not None else ""
        digest, name = hashlib.sha256(data).hexdigest(), self._files[".json"].path.name
        contents = {".json": data, ".html": page(found, name, digest, signature)}
        if signature:
            contents[".json.sig"] = signature.encode()
        for suffix, content in contents.items():
            with self._files[suffix].writing() as path:
                path.write_bytes(content)


def certify(
    lake: Lake,
    asked: Sequence[EraseRequest],
    options: EraseOptions,
    done: Erased,
    files: CertificateFiles,
    projections: Path | None = None,
    *,
    words: bool = True,
) -> Erased:
    """Search the lake for the rows after an erasure, and write its certificate.

    Args:
        projections: The file that declares projections; ``projections.yml`` by default.
        words: Whether the erasure would have been refused for text that names a row.

    Returns:
        What was done, with the content of the certificate.

    Raises:
        SingerlakeError: The lake cannot be searched, the files cannot be written, or the signer
            failed. The rows are erased all the same, and the same request certifies them later.
    """
    places = published_places(lake, projections)
    found = certificate(lake, asked, options, done, places, words=words)
    files.write(found, None if options.signer is None else options.signer.sign)
    return replace(done, certificate=found)
