"""Signatures by the real ``ssh-keygen``: files, agents, passphrases, and lists of signers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake import api
from singerlake.errors import RuntimeMissingError, SingerlakeError, UsageError
from singerlake.format.signed_text import armored, signed_text, signing_key
from singerlake.lake import Lake, Table
from singerlake.ops.sign import openssh
from singerlake.ops.sign.openssh import AllowedSigners, SigningKey
from tests.cli.call import run, run_json
from tests.faults import plain
from tests.needs import MORE
from tests.ops.sign.test_sign import ADA, filled, frozen, signed
from tests.sshsig import Key, signed_with

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen (OpenSSH) is not installed"
)
TIME = "2026-11-22T18:30:00.123456Z"


def keygen(*arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        ["ssh-keygen", *arguments], input=stdin, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode()


def new_key(folder: Path, name: str, *kind: str, passphrase: str = "") -> Path:
    path = folder / name
    keygen("-q", *(kind or ("-t", "ed25519")), "-N", passphrase, "-C", name, "-f", str(path))
    return path


@pytest.fixture
def key(processes: None, tmp_path: Path) -> Path:
    return new_key(tmp_path, "ada")


@pytest.fixture
def allowed(key: Path, tmp_path: Path) -> Path:
    return listed(tmp_path, f'ada@example.org namespaces="singerlake" {public(key)}')


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def listed(folder: Path, *lines: str) -> Path:
    path = folder / "allowed_signers"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def table(lake: Lake) -> Table:
    table = filled(lake, 1)
    frozen(table)
    return table


@pytest.mark.parametrize(
    "kind",
    [
        ("-t", "ed25519"),
        pytest.param(("-t", "rsa", "-b", "2048"), marks=MORE),
        pytest.param(("-t", "ecdsa"), marks=MORE),
    ],
    ids=lambda kind: kind[1],
)
@pytest.mark.usefixtures("processes")
def test_each_kind_of_key_signs_and_is_verified(tmp_path: Path, kind: tuple[str, ...]) -> None:
    path = new_key(tmp_path, "key", *kind)
    signer = SigningKey.of(path)
    signature = signer.sign(b"text\n")
    assert signing_key(signature) == signer.fingerprint
    signers = AllowedSigners.of(listed(tmp_path, f"eve,ada {public(path)}"))
    assert signers.signer(b"text\n", signature, TIME) == ("eve", "")
    assert signers.signer(b"other\n", signature, TIME)[0] is None
    if kind[1] == "ed25519":
        assert signed_with(b"text\n", signature) == signer.fingerprint


@pytest.mark.usefixtures("processes")
def test_ssh_keygen_verifies_signatures_that_it_did_not_make(tmp_path: Path) -> None:
    ours = Key()
    signers = AllowedSigners.of(listed(tmp_path, "# people", f"ada {ours.line}"))
    assert signers.signer(b"text", ours.sign(b"text"), TIME) == ("ada", "")
    assert signers.signer(b"text", ours.sign(b"text", b"git"), TIME)[0] is None
    assert signers.signer(b"text", Key().sign(b"text"), TIME) == (
        None,
        "none of the signers has its key",
    )
    path = tmp_path / "ours"
    path.write_bytes(ours.file())
    path.chmod(0o600)
    assert signed_with(b"text", SigningKey.of(path).sign(b"text")) == ours.fingerprint


@pytest.mark.usefixtures("processes")
def test_signer_s_name_may_have_spaces(tmp_path: Path) -> None:
    ours = Key()
    signers = AllowedSigners.of(listed(tmp_path, f'"Ada L,ada" {ours.line}'))
    assert signers.signer(b"text", ours.sign(b"text"), TIME) == ("Ada L", "")


def test_key_counts_while_it_is_valid(key: Path, tmp_path: Path) -> None:
    signature = SigningKey.of(key).sign(b"text")
    until = listed(tmp_path, f'ada valid-before="20261122183001Z" {public(key)}')
    signers = AllowedSigners.of(until)
    assert signers.signer(b"text", signature, TIME) == ("ada", "")
    who, why = signers.signer(b"text", signature, "2026-11-22T18:30:02.000000Z")
    assert (who, "key has expired" in why) == (None, True)


def test_command_signs_lists_exports_and_verifies(
    table: Table, lake: Lake, key: Path, allowed: Path, tmp_path: Path
) -> None:
    name = SigningKey.of(key).fingerprint
    before = run(lake, "sign", "tap.s.1")
    assert "tap.s version 1 is not signed; sign it with: singerlake sign tap.s.1" in before.stdout
    done = run(lake, "sign", "tap.s.1", "--key", str(key))
    assert done.stdout == f"tap.s version 1 is signed with {name} (transaction 3)\n", done.output
    again = run(lake, "sign", "tap.s.1", "--key", str(key))
    assert f"has a signature of {name} already (transaction 3)" in again.stdout
    (facts,) = run_json(lake, "sign", "tap.s.1")
    assert (facts["key"], facts["version"], facts["rows"]) == (name, 1, 1)
    written = run(lake, "sign", "tap.s.1", "--out", str(tmp_path / "out"))
    assert "1 signature written to" in written.stdout
    text = tmp_path / "out" / "tap.s.1.3.txt"
    assert text.read_text() == facts["text"]
    who = ("-I", "ada@example.org", "-n", "singerlake", "-f", str(allowed))
    assert Path(f"{text}.sig").read_text() == facts["signature"]
    good = keygen("-Y", "verify", *who, "-s", f"{text}.sig", stdin=text.read_bytes())
    assert good.startswith('Good "singerlake" signature for ada@example.org')
    checked = run(lake, "verify", "tap.s", "--signed-by", str(allowed), "--engine", "local")
    assert checked.exit_code == 0, checked.output
    assert f"  version 1: signed by ada@example.org ({name}, " in checked.stdout
    assert "signs version 1" in run(lake, "history", "tap.s").stdout
    assert "signed: 1" in run(lake, "versions", "tap.s").stdout
    assert run(lake, "sign", "tap.s.1", "--out", str(tmp_path / "out")).exit_code == 0
    text.write_text("other")
    taken = run(lake, "sign", "tap.s.1", "--out", str(tmp_path / "out"))
    assert (taken.exit_code, "cannot be written: File exists" in taken.stderr) == (2, True)


def test_freeze_signs_and_verify_needs_each_signature(
    table: Table, lake: Lake, key: Path, allowed: Path
) -> None:
    filled(lake, 2)
    done = run(lake, "freeze", "tap.s", "--sign", str(key), "--engine", "local")
    assert "tap.s version 2 is signed with SHA256:" in done.stdout, done.output
    both = run(lake, "verify", "--all", "--signed-by", str(allowed), "--engine", "local")
    assert both.exit_code == 5
    assert "signer: version 1: expected a signature of an allowed signer, found none" in (
        both.stdout
    )
    one = run(lake, "verify", "tap.s.2", "--signed-by", str(allowed), "--engine", "local")
    assert one.exit_code == 0, one.output
    document = run_json(lake, "verify", "tap.s.2", "--signed-by", str(allowed), "--engine", "local")
    assert [one["signer"] for one in document[0]["signatures"]] == ["ada@example.org"]
    lake_table = api.Lake(lake.store)["tap.s"]
    assert lake_table.sign(1, key).signed[0].by
    assert lake_table.verify(signed_by=allowed, engine="local").problems == []
    filled(lake, 3)
    assert lake_table.freeze(sign=key, engine="local").signed
    assert [*plain.tables(plain.dump_folder(Path(lake.store.uri)))] == ["tap.s"]


def test_command_erases_and_signs(lake: Lake, key: Path, allowed: Path) -> None:
    frozen(filled(lake, 1, 2))
    why = ("--key", "2", "--reason", "request 1", "--no-notify", "--engine", "local")
    done = run(lake, "erase", "tap.s", *why, "--sign", str(key))
    assert done.exit_code == 0, done.output
    assert "tap.s version 1 is signed with SHA256:" in done.stdout
    checked = run(lake, "verify", "tap.s", "--signed-by", str(allowed), "--engine", "local")
    assert checked.exit_code == 0, checked.output
    key.unlink()
    refused = run(lake, "erase", "tap.s", *why, "--sign", str(key))
    assert (refused.exit_code, "is not a file" in refused.stderr) == (2, True)


@pytest.fixture
def agent(key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An agent that holds the private key, of which only the public one is on disk."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("ssh-agent (OpenSSH) is not installed")
    socket = Path("/tmp") / f"singerlake-agent-{os.getpid()}"  # paths of sockets are short
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(1000):
            if socket.exists():
                break
            subprocess.run(["sleep", "0.01"], check=True)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", str(key)], check=True)
        key.unlink()
        yield key.with_suffix(".pub")
    finally:
        process.terminate()
        process.wait(10)
        socket.unlink(missing_ok=True)


def test_agent_signs(table: Table, agent: Path, allowed: Path) -> None:
    note = signed(table, "1", SigningKey.of(agent))  # type: ignore[arg-type]  # another signer
    text = signed_text(table.name, table.snapshot().version("1"), note)
    assert AllowedSigners.of(allowed).signer(text, note.signature, note.time)[0]


def test_key_that_no_agent_holds_does_not_sign(
    table: Table, lake: Lake, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key.unlink()
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    done = run(lake, "sign", "tap.s.1", "--key", f"{key}.pub")
    assert (done.exit_code, "ssh-keygen cannot sign with" in done.stderr) == (1, True)
    assert table.snapshot().number == 2


def test_wrong_passphrase_is_one_error(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: None
) -> None:
    path = new_key(tmp_path, "locked", passphrase="right word")
    answer = tmp_path / "answer"
    answer.write_text("#!/bin/sh\necho wrong word\n")
    answer.chmod(0o700)
    monkeypatch.setenv("SSH_ASKPASS", str(answer))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(SingerlakeError, match="incorrect passphrase"):
        SigningKey.of(path).sign(b"text")
    answer.write_text("#!/bin/sh\necho right word\n")
    assert SigningKey.of(path).sign(b"text")


@pytest.mark.usefixtures("processes")
def test_key_that_cannot_sign_freezes_no_table(
    table: Table, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public key of a private one that no agent holds is a good file, and cannot sign."""
    path, good = new_key(tmp_path, "away"), new_key(tmp_path, "ada")
    path.unlink()
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    filled(lake, 2)
    done = run(lake, "freeze", "--all", "--sign", f"{path}.pub")
    assert done.exit_code == 1
    assert "ssh-keygen cannot sign with" in done.stderr
    assert (table.snapshot().number, lake.lake_versions()) == (3, [])
    done = run(lake, "freeze", "--all", "--sign", str(good))
    assert done.exit_code == 0, done.output
    signers = listed(tmp_path, f"ada@example.org {public(good)}")
    assert run(lake, "verify", "tap.s.2", "--signed-by", str(signers)).exit_code == 0


@pytest.mark.usefixtures("processes")
def test_bad_input_is_refused_before_anything_starts(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("hello\n")
    cases = [
        (["sign", "tap.s.1", "--key", str(tmp_path / "none")], 2, "is not a file"),
        (["sign", "tap.s.1", "--key", str(text)], 2, "is not a key of OpenSSH"),
        (["sign", "tap.s", "--key", str(text)], 2, "tap.s is not a version"),
        (["sign", "tap.s.7"], 3, "no version '7'"),
        (["sign", "tap.s.1", "--key", str(text), "--out", str(tmp_path)], 2, "leave --key out"),
        (["freeze", "tap.s", "--again", "--sign", str(text)], 2, "is not a key of OpenSSH"),
        (["freeze", "--all", "--again", "--sign", str(text)], 2, "is not a key of OpenSSH"),
        (["verify", "tap.s", "--signed-by", str(text)], 2, "not a file of allowed signers"),
        (["verify", "tap.s", "--signed-by", str(tmp_path / "no")], 2, "cannot be read"),
    ]
    for arguments, code, words in cases:
        done = run(lake, *arguments)
        assert (done.exit_code, words in done.stderr) == (code, True), done.output
    assert table.snapshot().number == 2


def test_missing_openssh_is_one_error(
    table: Table, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openssh.shutil, "which", lambda _: None)
    path = tmp_path / "key"
    path.write_text(armored(ADA.sign(b"")))
    with pytest.raises(RuntimeMissingError, match="need ssh-keygen of OpenSSH 8.8 or later"):
        SigningKey.of(path)
    with pytest.raises(RuntimeMissingError, match="need ssh-keygen"):
        AllowedSigners.of(listed(tmp_path, f"ada {ADA.line}"))
    done = run(lake, "verify", "tap.s", "--signed-by", str(tmp_path / "allowed_signers"))
    assert (done.exit_code, "apt-get install openssh-client" in done.stderr) == (1, True)
    with pytest.raises(UsageError, match="cannot be read: it is not text"):
        AllowedSigners.of(_binary(tmp_path))


def _binary(folder: Path) -> Path:
    path = folder / "binary"
    path.write_bytes(b"\xff\xfe")
    return path
