"""What the browser tests need, and how it is found: a browser, and axe."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable")
AXE = "4.14.1"
CACHE = Path(__file__).parents[2] / ".pytest_cache" / "axe-core"
"""Kept out of the repository: make clean takes it away."""


def executable() -> str | None:
    """A browser of this machine."""
    named = os.environ.get("SINGERLAKE_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def axe() -> str | None:
    """The source of axe-core, from the npm registry; None where that cannot be reached.

    By npm, or without it from the registry that ``NPM_CONFIG_REGISTRY`` names.
    """
    kept = CACHE / f"{AXE}.js"
    if not kept.is_file():
        source = _with_npm() or _with_python()
        if source is None:
            return None
        CACHE.mkdir(parents=True, exist_ok=True)
        part = CACHE / f"{os.getpid()}.part"
        part.write_bytes(source)
        part.replace(kept)
    return kept.read_text(encoding="utf-8")


def _with_npm() -> bytes | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "pack", "--silent", f"axe-core@{AXE}"],
        cwd=CACHE, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    archive = CACHE / f"axe-core-{AXE}.tgz"
    if done.returncode or not archive.is_file():
        return None
    data = archive.read_bytes()
    archive.unlink()
    return _script(data)


def _with_python() -> bytes | None:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "").rstrip("/")
    if not registry:
        return None
    try:
        with urllib.request.urlopen(f"{registry}/axe-core/{AXE}", timeout=30) as answer:
            tarball = json.load(answer)["dist"]["tarball"]
        with urllib.request.urlopen(tarball, timeout=60) as answer:
            return _script(answer.read())
    except (OSError, ValueError, KeyError):
        return None


def _script(data: bytes) -> bytes | None:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = archive.extractfile("package/axe.min.js")
        return found.read() if found is not None else None
