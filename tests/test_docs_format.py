"""docs/internals/format.md is the contract: its examples and vectors are held to the code."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from singerlake import FORMAT
from singerlake.format import (
    annotations,
    block,
    head_file,
    lake_log,
    log,
    metadata,
    not_copied,
    overlay,
    version_notes,
)
from singerlake.format.names import TableName
from singerlake.format.schema_hash import canonical, fingerprint64, schema_hash
from singerlake.format.signed_text import covers, signed_text, signing_key
from singerlake.log.checkpoint import from_manifest, to_manifest
from singerlake.log.conflicts import changes_rows
from tests.sshsig import Key, signed_with
from tests.test_docs_links import anchors
from tests.test_docs_promises import check_named_tests

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "internals" / "format.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^```json ([a-z-]+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
VECTORS = re.findall(r"^\| `(\{.*\})` \| (\d+) \| `([0-9a-f]{16})` \| `(.{7})` \|$", TEXT, re.M)
KINDS = {
    "log-entry": log.Entry,
    "change-entry": log.Entry,
    "drop": log.Entry,
    "deletion": log.Entry,
    "pointer": log.Entry,
    "signature": log.Entry,
    "erase": log.Entry,
    "frozen-version": log.FrozenVersion,
    "overlay": overlay.Overlay,
    "notice": version_notes.Notice,
    "suppression-list": version_notes.BlockedKeys,
    "file-list": log.FileList,
    "manifest": metadata.Manifest,
    "head": head_file.HeadFile,
    "lake": metadata.LakeFile,
    "lock": metadata.Lock,
    "lease": metadata.Lease,
    "index": metadata.IndexMarker,
    "lake-version": lake_log.LakeVersion,
    "not-copied": not_copied.NotCopied,
    "bookmark": metadata.Bookmark,
}


def test_the_format_number_is_the_codes() -> None:
    assert f"Format number **{FORMAT}**" in TEXT


def test_the_signature_of_the_page() -> None:
    """It is of the version on the page, by a key whose bytes are 0 to 31."""
    version = msgspec.json.decode(EXAMPLES["frozen-version"], type=log.FrozenVersion)
    note = log.decode_entry(EXAMPLES["signature"].encode(), 85, "it").signature
    assert note is not None
    text = signed_text(TableName("tap-shop", "orders"), version, note)
    key = Key(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    assert signed_with(text, note.signature) == key.fingerprint == signing_key(note.signature)
    words = [line.split()[0] for line in text.decode().splitlines()[1:]]
    (table,) = re.findall(r"^\| `singerlake-version-1`.*?\n\n", TEXT, re.M | re.S)
    told = re.findall(r"`([a-z]+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.M)))
    assert [word for word in told if word != "erased"] == words
    assert covers(version, note)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_what_the_code_writes(name: str) -> None:
    example = json.loads(EXAMPLES[name])
    value = msgspec.json.decode(EXAMPLES[name], type=KINDS[name])
    written = json.loads(msgspec.json.encode(value))
    assert {**example, **written} == example, "the code writes something else"
    left_out = {key: example[key] for key in example.keys() - written.keys()}
    assert not any(left_out.values()), "the code does not know these"


def test_the_operations_are_those_of_the_page() -> None:
    (listed,) = re.findall(r"^\| `operation` \| (.*): see \[operations\].*$", TEXT, re.M)
    words = re.findall(r"`([a-z-]+)`", listed)
    assert sorted(words) == sorted(map(str, log.Operation))
    explained = {*re.findall(r"^\| `([a-z-]+)` \| ", TEXT, re.M)}
    assert {*words} <= explained


def test_all_kinds_of_file_have_an_example() -> None:
    assert set(EXAMPLES) == set(KINDS)


def test_the_manifest_example_folds_and_unfolds() -> None:
    manifest = msgspec.json.decode(EXAMPLES["manifest"], type=metadata.Manifest)
    snapshot = from_manifest(TableName("tap-shop", "orders"), manifest)
    manifest.hash = ""
    assert to_manifest(snapshot) == manifest


def test_the_examples_have_the_hash_that_the_page_defines() -> None:
    entry = EXAMPLES["log-entry"].encode()
    found = log.decode_entry(entry, 82, "it")
    body = entry[: entry.index(b' "hash"')]
    assert found.hash == hashlib.sha256(body).hexdigest()
    assert body + f' "hash": "{found.hash}"\n}}\n'.encode() == entry
    assert log.decode_entry(EXAMPLES["change-entry"].encode(), 83, "it").previous == found.hash
    dropped = log.decode_entry(EXAMPLES["drop"].encode(), 83, "it")
    deletion = log.decode_entry(EXAMPLES["deletion"].encode(), 83, "it")
    pointer = log.decode_entry(EXAMPLES["pointer"].encode(), 84, "it")
    assert pointer.previous == deletion.hash
    assert log.decode_entry(EXAMPLES["signature"].encode(), 85, "it").previous == pointer.hash
    erase = log.decode_entry(EXAMPLES["erase"].encode(), 83, "it")
    assert dropped.previous == deletion.previous == erase.previous == found.hash
    metadata.decode(EXAMPLES["manifest"].encode(), metadata.Manifest, "it")
    metadata.decode(EXAMPLES["index"].encode(), metadata.IndexMarker, "it")


def test_what_is_written_has_the_hash_that_the_page_defines() -> None:
    found = log.decode_entry(EXAMPLES["log-entry"].encode(), 82, "it")
    written, data = log.seal_entry(found)
    assert log.decode_entry(data, 82, "it") == written
    assert data.endswith(f',\n "hash": "{written.hash}"\n}}\n'.encode())
    manifest = metadata.decode(EXAMPLES["manifest"].encode(), metadata.Manifest, "it")
    manifest.hash = ""
    for indent in (True, False):
        data = metadata.encode(manifest, indent=indent)
        body = data[: data.index(b' "hash"')]
        assert data == body + f' "hash": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()


def test_the_head_file_of_the_page() -> None:
    head = head_file.decode(EXAMPLES["head"].encode(), "it")
    manifest = metadata.decode(EXAMPLES["manifest"].encode(), metadata.Manifest, "it")
    assert (head.last, head.chain) == (manifest.transactions[-1], manifest.chain)
    assert head.schemas == manifest.schemas
    explained = TEXT.partition("### The head file")[2].partition("### The catalog")[0]
    for field in msgspec.structs.fields(head_file.HeadFile):
        assert f"`{field.encode_name}`" in explained, field.name
    again = head_file.encode(msgspec.structs.replace(head, hash=""))
    assert head_file.decode(again, "it").last == head.last


def test_the_lake_version_of_the_page() -> None:
    data = EXAMPLES["lake-version"].encode()
    found = lake_log.decode(data, 1, "it")
    assert lake_log.seal(found) == (found, data)
    assert found.fingerprint == lake_log.fingerprint(found.tables)
    explained = TEXT.partition("## Lake versions")[2].partition("## Derived files")[0]
    for kind, before in ((lake_log.LakeVersion, ""), (lake_log.LakeTable, "tables[].")):
        for field in msgspec.structs.fields(kind):
            words = re.escape(f"`{before}{field.name}`")
            assert re.search(rf"^\| [^|]*{words}", explained, re.MULTILINE), field.name


def test_what_a_copy_left_out_on_the_page() -> None:
    data = EXAMPLES["not-copied"].encode()
    found = not_copied.decode(data, "it")
    assert not_copied.encode(found) == data
    entry = lake_log.decode(EXAMPLES["lake-version"].encode(), 1, "it")
    [absence] = found.lake_versions
    assert (absence.number, absence.chain) == (entry.number, entry.chain)
    assert [one.name for one in absence.tables] == [entry.tables[0].name]
    explained = TEXT.partition("### Omitted tables")[2].partition("## Derived files")[0]
    for field in msgspec.structs.fields(not_copied.Absence):
        assert f"`lake_versions[].{field.name}`" in explained, field.name


def test_every_field_of_a_log_entry_is_explained() -> None:
    for name in (field.encode_name for field in msgspec.structs.fields(log.Entry)):
        assert re.search(rf"^\| .*`{name}`", TEXT, re.MULTILINE), name


@pytest.mark.parametrize(
    ("heading", "kinds"),
    [
        ("## Attached files", [log.FileList]),
        ("### Table versions", [log.FrozenVersion]),
        (
            "## Schema overrides",
            [
                overlay.Overlay,
                overlay.ColumnOverlay,
                overlay.AddedColumn,
                overlay.Constraint,
            ],
        ),
        ("## Erased rows", [version_notes.Erasure, version_notes.ErasedVersion]),
        ("### Suppression lists", [version_notes.BlockedKeys]),
        (
            "### The manifest",
            [
                metadata.Manifest,
                metadata.TransactionSummary,
                version_notes.Deleted,
                version_notes.VersionErasure,
            ],
        ),
        (
            "### The lake's file",
            [
                metadata.LakeFile,
                annotations.TapEntry,
                annotations.ColumnEntry,
                annotations.Publication,
            ],
        ),
        ("## Materialized snapshots", [metadata.IndexMarker, metadata.IndexFile]),
    ],
)
def test_every_member_of_the_derived_files_and_the_overlay_is_explained(
    heading: str, kinds: list[type[msgspec.Struct]]
) -> None:
    level = heading.partition(" ")[0]
    explained = TEXT.partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0]
    for kind in kinds:
        for field in msgspec.structs.fields(kind):
            name = re.escape(field.encode_name)
            assert re.search(rf'[`."]{name}[`"]', explained), f"{heading}: {field.encode_name}"


def test_unknown_operation_is_read_as_a_change_of_rows() -> None:
    known = log.decode_entry(EXAMPLES["log-entry"].encode(), 82, "it")
    entry = msgspec.structs.replace(known, operation="of-a-later-release", hash="")
    found = log.decode_entry(log.seal_entry(entry)[1], 82, "it")
    summary = metadata.TransactionSummary(
        number=82, commit=found.commit, operation=found.operation, time=found.time
    )
    assert changes_rows(summary)


@pytest.mark.parametrize(("text", "nuls", "fingerprint", "name"), VECTORS)
def test_a_hash_vector(text: str, nuls: str, fingerprint: str, name: str) -> None:
    value = json.loads(text)
    assert canonical(value["schema"], value["key_properties"]) == text.encode()
    assert f"{fingerprint64(text.encode() + bytes(int(nuls))):016x}" == fingerprint
    assert schema_hash(value["schema"], value["key_properties"]) == name


def test_there_are_vectors() -> None:
    assert len(VECTORS) >= 3


def test_the_header_of_what_a_vacuum_put_together() -> None:
    data = block.encode(b"x\n", 7, 12, block.Origin(300, (10, 12)))
    assert int.from_bytes(data[10:12], "little") == 24 + 12 + 16
    assert data[36:40] == b"SR\x18\0"
    stamps = [int.from_bytes(data[at : at + 8], "little") for at in (40, 48, 56)]
    assert stamps == [300, 10, 12]
    assert block.origin(data, "it") == block.Origin(300, (10, 12))


def test_the_header_that_says_between_which_keys_a_block_lies() -> None:
    text = b'{"id":[1,25000],"code":["A-1","Z-9"]}'
    assert text.decode() in TEXT
    data = block.encode(b"x\n", 7, 12, None, {"id": (1, 25_000), "code": ("A-1", "Z-9")})
    assert int.from_bytes(data[10:12], "little") == 24 + 8 + len(text)
    assert data[36:40] == b"SK" + (4 + len(text)).to_bytes(2, "little")
    assert int.from_bytes(data[40:44], "little") == zlib.crc32(data[-8:] + text)
    assert data[44 : 44 + len(text)] == text


def test_the_header_that_says_that_types_are_proved() -> None:
    data = block.encode(b"x\n", 7, 12, None, None, "NFSHXeX")
    assert int.from_bytes(data[10:12], "little") == 24 + 8 + 1 + 7
    assert data[36:40] == b"ST" + (4 + 1 + 7).to_bytes(2, "little")
    assert int.from_bytes(data[40:44], "little") == zlib.crc32(data[-8:] + b"\1NFSHXeX")
    assert data[44:52] == b"\1NFSHXeX"


def test_the_header_is_laid_out_as_the_table_says() -> None:
    data = block.encode(b"x\n", 7, 123456789)
    assert data[:12] == b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x18\0"
    assert data[12:16] == b"SL\x14\0"
    assert int.from_bytes(data[16:24], "little") == len(data)
    assert int.from_bytes(data[24:28], "little") == 7
    assert int.from_bytes(data[28:36], "little") == 123456789


def test_each_section_with_a_requirement_names_its_tests() -> None:
    text, _, listed = TEXT.partition("\n## Requirements and tests\n")
    rows = dict(re.findall(r"^\| \[[^]]+\]\(#([\w-]+)\) \| (`tests/.*) \|$", listed, re.M))
    assert rows.keys() <= anchors(ROOT / "docs" / "internals" / "format.md")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    sections = re.split(r"^#{2,4} (.+)$", prose, flags=re.M)
    demanding = {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        for heading, body in zip(sections[1::2], sections[2::2], strict=True)
        if re.search(r"\b(?:MUST|SHOULD|MAY)\b", body)
    }
    assert len(demanding) > 25
    assert demanding <= rows.keys(), demanding - rows.keys()
    check_named_tests(listed)
