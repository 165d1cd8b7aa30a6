"""OpenSSH's ``ssh-keygen``, which signs with keys in files, agents and hardware, and verifies."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import RuntimeMissingError, SingerlakeError, UsageError
from singerlake.format.signed_text import NAMESPACE, armored, unarmored

PROGRAM = "ssh-keygen"
_NO_PRINCIPAL = "No principal matched."


@dataclass(frozen=True)
class SigningKey:
    """A key of OpenSSH: a private one, or a public one whose private one an agent holds.

    Attributes:
        file: Its file.
        fingerprint: As ``ssh-keygen -l`` shows it: ``SHA256:…``.
    """

    file: Path
    fingerprint: str

    @classmethod
    def of(cls, file: str | Path) -> SigningKey:
        """Look at a key's file.

        Raises:
            UsageError: It is not a key.
            RuntimeMissingError: OpenSSH is not installed.
        """
        path = Path(file).expanduser()
        if not path.is_file():
            raise UsageError(f"the key {path} is not a file: name a key of OpenSSH")
        done = _run("-l", "-E", "sha256", "-f", str(path))
        words = done.stdout.split()
        if done.returncode or len(words) < 2:  # noqa: PLR2004  # bits, and the fingerprint
            raise UsageError(
                f"{path} is not a key of OpenSSH ({_said(done)}): name a private key, or the "
                "public key of one that ssh-agent holds"
            )
        return cls(path, words[1])

    def sign(self, text: bytes) -> str:
        """Return a signature of a text, in Base64 without armor.

        Raises:
            SingerlakeError: The passphrase was wrong, or no agent or device has the private key.
        """
        with _file(text) as message:
            arguments = ("-Y", "sign", "-n", NAMESPACE, "-f", str(self.file), str(message))
            done = _run(*arguments)
            written = Path(f"{message}.sig")
            if done.returncode or not written.is_file():
                raise SingerlakeError(f"{PROGRAM} cannot sign with {self.file}: {_said(done)}")
            return unarmored(written.read_text())


@dataclass(frozen=True)
class AllowedSigners:
    """The signers whose signatures count, in a file of OpenSSH's format ALLOWED SIGNERS.

    Attributes:
        file: The file.
    """

    file: Path

    @classmethod
    def of(cls, file: str | Path) -> AllowedSigners:
        """Look at a file of signers.

        Raises:
            UsageError: It cannot be read, or lists nobody.
            RuntimeMissingError: OpenSSH is not installed.
        """
        path = Path(file).expanduser()
        try:
            lines = path.read_text().splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise UsageError(f"the file of signers {path} cannot be read: {reason}") from error
        said = [line.split() for line in lines if line.strip() and line.strip()[0] != "#"]
        if not said or min(map(len, said)) < 3:  # noqa: PLR2004  # who, the type, the key
            raise UsageError(
                f"{path} is not a file of allowed signers: write a line for each signer, for "
                "example: ada@example.org ssh-ed25519 AAAA…"
            )
        _program()
        return cls(path)

    def signer(self, text: bytes, signature: str, time: str) -> tuple[str | None, str]:
        """Return who signed a text, and, if that is none of the signers, why.

        Args:
            signature: In Base64 without armor.
            time: When it was made; keys may be valid only before, or after, a time.
        """
        at = "-Overify-time=" + "".join(filter(str.isdigit, time))[:14]
        own, files = "-n", ("-f", str(self.file))
        with _file(armored(signature).encode()) as sig:
            found = _run("-Y", "find-principals", "-s", str(sig), *files, at)
            why = _said(found)
            for principal in _principals(found):
                arguments = ("-Y", "verify", "-I", principal, own, NAMESPACE, "-s", str(sig))
                done = _run(*arguments, *files, at, stdin=text)
                if done.returncode == 0:
                    return principal, ""
                why = _said(done)
        return None, why


def _principals(found: subprocess.CompletedProcess[str]) -> list[str]:
    if found.returncode:
        return []
    return list(dict.fromkeys(one for line in found.stdout.splitlines() for one in line.split(",")))


def _program() -> str:
    program = shutil.which(PROGRAM)
    if program is None:
        raise RuntimeMissingError(
            f"signatures need {PROGRAM} of OpenSSH 8.8 or later, and there is none on the PATH: "
            "install it, for example with: apt-get install openssh-client"
        )
    return program


def _run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {**os.environ, "TZ": "UTC"}  # of -Overify-time
    done = subprocess.run(
        [_program(), *arguments], input=stdin, capture_output=True, env=environment, check=False
    )
    out, said = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, said)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """What ssh-keygen said was wrong."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if lines and lines[-1] == _NO_PRINCIPAL:
        return "; ".join(lines[:-1]) or "none of the signers has its key"
    return lines[-1] if lines else f"exit code {done.returncode}"


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="singerlake-") as folder:
        path = Path(folder) / "version"
        path.write_bytes(data)
        yield path
