"""Runs the target, in this process or as a real one, and reads back what landed."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from singerlake.lake import Lake
from target_singerlake.target import TargetSingerlake

TAP = "tap-test"
NOW = "2026-01-02T03:04:05.000006Z"
DATA = Path(__file__).parents[2].parent / "shared" / "data"


def schema(
    stream: str,
    properties: dict[str, Any] | None = None,
    keys: list[str] | None = None,
    **more: Any,
) -> bytes:
    """A SCHEMA line without its newline."""
    body = {"type": "object", "properties": properties or {"id": {"type": "integer"}}, **more}
    message = {"type": "SCHEMA", "stream": stream, "schema": body, "key_properties": keys or []}
    return json.dumps(message).encode()


def record(stream: str, record: Any, **more: Any) -> bytes:
    """A RECORD line without its newline; with the time unless told otherwise."""
    more = {"time_extracted": NOW, **more}
    if more["time_extracted"] == "absent":
        del more["time_extracted"]
    return json.dumps({"type": "RECORD", "stream": stream, "record": record, **more}).encode()


def state(value: Any) -> bytes:
    """A STATE line."""
    return json.dumps({"type": "STATE", "value": value}).encode()


def activate(stream: str, version: int) -> bytes:
    """An ACTIVATE_VERSION line."""
    return json.dumps({"type": "ACTIVATE_VERSION", "stream": stream, "version": version}).encode()


def text(lines: Iterable[bytes]) -> bytes:
    """Lines as they stand on standard input."""
    return b"".join(line + b"\n" for line in lines)


def run(lake: Path | str, data: bytes | Iterable[bytes], **config: Any) -> list[Any]:
    """Run the target in this process.

    Returns:
        The STATEs that it put out.
    """
    data = data if isinstance(data, bytes) else text(data)
    target = TargetSingerlake(config={"lake": str(lake), "tap_id": TAP, **config})
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")  # what a console spells is no matter
    try:
        with redirect_stdout(out):
            target.listen(io.BytesIO(data))  # type: ignore[arg-type]
    finally:
        out.flush()
        states = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
        run.states = [json.loads(line) for line in states.splitlines()]  # type: ignore[attr-defined]
    return run.states  # type: ignore[attr-defined, no-any-return]


def lines_of(lake: Path | str, stream: str, tap: str = TAP) -> list[bytes]:
    """All lines of a table but the SCHEMA lines, in the order of the log."""
    table, _ = Lake.open(str(lake)).find(f"{tap}.{stream}")
    found: list[bytes] = []
    for block in table.snapshot().blocks:
        first, *rest = table.read_block(block).split(b"\n")
        assert json.loads(first)["type"] == "SCHEMA"
        assert rest.pop() == b""
        assert block.rows == sum(b"RECORD" in line and _type(line) == "RECORD" for line in rest)
        found.extend(rest)
    return found


def records_of(lake: Path | str, stream: str) -> list[Any]:
    """The records of a table."""
    messages = [json.loads(line) for line in lines_of(lake, stream)]
    return [m["record"] for m in messages if m["type"] == "RECORD"]


def _type(line: bytes) -> Any:
    return json.loads(line)["type"]


def tables(lake: Path | str) -> dict[str, int]:
    """The transactions of every table that has some."""
    opened = Lake.open(str(lake), create=True)
    return {
        name.stream: opened.table(name).snapshot().number
        for name in opened.tables()
        if list((Path(lake) / name.folder / "transactions").glob("*.json"))
    }


def data_files(lake: Path | str) -> list[Path]:
    """Every data file."""
    return sorted(Path(lake).rglob("*.singer.gz"))


def leftovers(lake: Path | str) -> list[Path]:
    """Staged files and locks that should be gone after any orderly end."""
    staging = [p for p in (Path(lake) / ".staging").glob("*") if p.name != "replace.lock"]
    return staging + list(Path(lake).rglob("singerlake.lock"))


def plain_reader(path: Path) -> Iterator[Any]:
    """What any Singer reader does: unzip, line by line, JSON."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def command(lake: Path | str, **config: Any) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of a real process."""
    folder = Path(lake).parent
    settings = folder / f"config-{len(list(folder.glob('config-*')))}.json"
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": TAP, **config}))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TARGET_", "MELTANO_"))}
    return [sys.executable, "-m", "target_singerlake.target", "--config", str(settings)], env


def peak_of(lake: Path | str, data: bytes | Iterable[bytes], **config: Any) -> int:
    """Run the target as a real process, which succeeds; the most memory that it had, in bytes."""
    data = data if isinstance(data, bytes) else text(data)
    args, env = command(lake, **config)
    code = (
        "import sys; from pathlib import Path; from target_singerlake.__main__ import main\n"
        "try: main()\n"
        # Not ru_maxrss, which a process inherits from the one that started it.
        "finally: print(Path('/proc/self/status').read_text(), file=sys.stderr)"
    )
    args = [args[0], "-c", code, *args[3:]]
    done = subprocess.run(args, input=data, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    [peak] = re.findall(rb"VmHWM:\s+(\d+) kB", done.stderr)
    return int(peak) << 10


def process(
    lake: Path | str, data: bytes | Iterable[bytes], **config: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the target as a real process."""
    data = data if isinstance(data, bytes) else text(data)
    args, env = command(lake, **config)
    return subprocess.run(args, input=data, capture_output=True, env=env, check=False, timeout=60)
