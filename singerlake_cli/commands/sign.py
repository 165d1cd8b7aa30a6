"""singerlake sign: signatures of versions, with keys of OpenSSH."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from singerlake.errors import UsageError
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.signed_text import armored, key_of, signed_text
from singerlake.format.version_notes import SignatureNote
from singerlake.lake import Lake, Table
from singerlake_cli import output
from singerlake_cli.lake_versions import signed_words
from singerlake_cli.shared import Shared


@click.command("sign")
@click.argument("versions", nargs=-1, required=True, metavar="TABLE.VERSION...")
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Sign with this key of OpenSSH: a private key, or the public key of one that ssh-agent "
    "or a hardware token holds.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write each signature, and the text that it covers, to files for ssh-keygen -Y verify.",
)
@click.pass_obj
def command(
    shared: Shared, versions: tuple[str, ...], key: Path | None, folder: Path | None
) -> None:
    """Sign frozen versions, or list their signatures.

    A signature covers the table, the version's number, its rows and fingerprints, the last
    transaction of the log with its chain id, and the time. It is kept in the table's log. Several
    people can sign the same version. `singerlake verify --signed-by ALLOWED_SIGNERS` then detects
    even a log that somebody with write access has forged as a whole, because only the signers have
    the keys.

    Signatures have OpenSSH's format and the namespace singerlake. ssh-keygen (OpenSSH 8.8 or later)
    signs, as it does for git: it asks for the key's passphrase, or a touch of the hardware key.

    If rows of a version are erased, its earlier signatures stay, and no longer cover what is left:
    sign it again. The new signature also states how many rows each erasure removed.

    \b
    singerlake sign tap-shop.orders.3 --key ~/.ssh/id_ed25519
    singerlake sign tap-shop.orders@current tap-shop.items@current --key ~/.ssh/id_ed25519.pub
    singerlake sign tap-shop.orders.3
    singerlake sign tap-shop.orders.3 --out signatures/
    """
    if key is not None and folder is not None:
        raise UsageError("--out writes the signatures that there are: leave --key out")
    chosen = [_version(shared.lake(), text) for text in versions]
    if key is not None:
        _sign(shared, chosen, key)
        return
    found = [(table.name, table.snapshot().version(name)) for table, name in chosen]
    if folder is not None:
        _export(folder, found)
    document = [one for table, version in found for one in _as_json(table, version)]
    shared.output.result(lambda: document, lambda: _print(found, folder))


def _version(lake: Lake, text: str) -> tuple[Table, str]:
    table, ref = lake.find(text)
    if ref.version is None:
        raise UsageError(f"{ref} is not a version: name one, for example {ref.table}.1")
    return table, ref.version


def _sign(shared: Shared, chosen: list[tuple[Table, str]], key: Path) -> None:
    from singerlake.ops.sign.openssh import SigningKey
    from singerlake.ops.sign.sign import sign, signable

    for table, name in chosen:
        signable(table.snapshot(), name)
    signer = SigningKey.of(key)
    done = []
    for table, name in chosen:
        done.append((table.name, sign(table.store, table.snapshot(), name, signer)))

    def say_all() -> None:
        for name, one in done:
            output.say(signed_words(name, one))

    document = [{**_facts(name, one.version, one.signature), "new": one.new} for name, one in done]
    shared.output.result(lambda: document, say_all)


def _as_json(table: TableName, version: FrozenVersion) -> list[dict[str, Any]]:
    return [_facts(table, version, note) for note in version.signed]


def _facts(table: TableName, version: FrozenVersion, note: SignatureNote) -> dict[str, Any]:
    return {
        "table": str(table),
        "version": version.number,
        **structs.asdict(note),
        "key": key_of(note.signature),
        "signature": armored(note.signature),
        "text": signed_text(table, version, note).decode(),
    }


def _print(found: list[tuple[TableName, FrozenVersion]], folder: Path | None) -> None:
    for table, version in found:
        name = f"{table} version {version.number}"
        if not version.signed:
            output.say(
                f"{name} is not signed; sign it with: singerlake sign {table}.{version.number} "
                "--key FILE"
            )
            continue
        for note in version.signed:
            output.say(
                f"{name}: {output.count(note.rows, 'row')} signed with "
                f"{key_of(note.signature)} on {note.time[:19]}Z by {note.by} (transaction "
                f"{note.transaction})"
            )
    if folder is not None:
        count = output.count(sum(len(version.signed) for _, version in found), "signature")
        output.say(f"{count} written to {folder}")


def _export(folder: Path, found: list[tuple[TableName, FrozenVersion]]) -> None:
    """Write texts and signatures; existing files of the same names must be the same.

    Raises:
        UsageError: A file cannot be written, or is there with other content.
    """
    files: dict[Path, bytes] = {}
    for table, version in found:
        name = table.folder.removeprefix("raw/").strip("/").replace("/", ".")
        for note in version.signed:
            stem = f"{name}.{version.number}.{note.transaction}"
            files[folder / f"{stem}.txt"] = signed_text(table, version, note)
            files[folder / f"{stem}.txt.sig"] = armored(note.signature).encode()
    for path, data in files.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != data:
                with path.open("xb") as file:
                    file.write(data)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
