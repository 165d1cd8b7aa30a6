"""Files on their way in: a folder of small ones and one large, beside ``cp``, boto3 and ``dvc add``.

Nothing is in the lake at the start, and the files are in the page cache. The way in is what
``singerlake upload`` does before Spark: reading, hashing, storing, and waiting for the disk, which
``cp`` does not do; so there is ``cp`` with that wait, too. Processor time is of all that takes part,
start-up included.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import boto3

from bench import harness
from bench.harness import Case, Cost
from bench.s3_server import s3_server

SMALL_BYTES = 100_000
LARGE_BYTES = 2_000_000_000
ROWS_PER_FILE = 30
"""So that the usual 300,000 rows are 10,000 files."""
LARGE_SHARE = 10
"""In a bucket there is a tenth of the files: the server keeps them in memory."""
GOAL = 1.5
_WAY_IN = """
import sys
from pathlib import Path
from singerlake.files.folder import Folder
from singerlake.files.folder_rows import FolderRows
from singerlake.format.names import TableName
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from singerlake.log.table_state import TableState
name, options = TableName("b", "files"), StoreOptions()
if len(sys.argv) > 3:
    options = StoreOptions(endpoint_url=sys.argv[3])
rows = FolderRows(
    open_store(sys.argv[1], options), name, lambda: TableState(name), Folder.named(sys.argv[2]),
    dry_run=False,
)
for line in rows.lines():
    pass
rows.contents.close()
"""


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: Thirty for each of the small files.
        rounds: How often.
    """
    many = max(10, rows // ROWS_PER_FILE)
    small = _made(folder / "small", many, SMALL_BYTES)
    large = _made(folder / "large", 1, LARGE_BYTES * many // 10_000)
    few = _made(folder / "few", max(1, many // LARGE_SHARE), SMALL_BYTES)
    dvc = _dvc(folder)
    parts = [harness.machine("boto3")]
    with s3_server(folder / "s3.log") as server:
        for source in (small, large):
            parts.append(_measured(_on_disk(folder, source, dvc), rounds, _title(source)))
        parts.append(
            _measured(_in_bucket(few, server.address), rounds, _title(few) + ", to a bucket")
        )
    return "\n\n".join(parts)


def _title(source: Path) -> str:
    files = [path.stat().st_size for path in source.iterdir()]
    return f"{len(files):,} files of {files[0] / 1e6:,.1f} MB"


def _made(folder: Path, number: int, size: int) -> Path:
    folder.mkdir()
    for n in range(number):
        with (folder / f"{n:06}.bin").open("wb") as file:
            for start in range(0, size, 1 << 24):
                file.write(os.urandom(min(1 << 24, size - start)))
    os.sync()
    return folder


def _measured(cases: dict[str, Case], rounds: int, title: str) -> str:
    times = harness.rounds(cases, rounds, warm_up=rounds > 1)
    first = next(iter(times.values()))
    lines = []
    base = _processor(first)
    for name, case in times.items():
        cpu = _processor(case)
        lines.append(
            [
                name,
                harness.number(case.median),
                case.spread,
                f"{case.median / first.median:.2f}",
                harness.number(cpu),
                f"{cpu / base:.2f}",
            ]
        )
    headings = [title, "median s", "fastest–slowest", "times the first", "CPU s", "times"]
    return harness.table(headings, lines)


def _processor(case: harness.Times) -> float:
    return sorted(cost.cpu for cost in case.costs)[len(case.costs) // 2]


def _on_disk(folder: Path, source: Path, dvc: Path | None) -> dict[str, Case]:
    copy, lake, project = folder / "copy", folder / "lake", folder / "project"
    hashed = "find $1 -type f -print0 | xargs -0 sha256sum"
    script = f"cp -r $1 $2 && {hashed}"
    cases = {
        "cp -r, then sha256sum": _shell(script, source, copy),
        "the same, and sync -f": _shell(f"{script} && sync -f $2", source, copy),
        "storing the files in a lake": _after(
            lambda: harness.fresh(lake),
            lambda: _children([sys.executable, "-c", _WAY_IN, lake, source]),
        ),
    }
    if dvc is not None:

        def prepare() -> None:
            harness.fresh(project).mkdir()
            subprocess.run(["cp", "-al", source, project / "data"], check=True)
            command = [dvc, "init", "--no-scm", "-q"]
            subprocess.run(command, cwd=project, check=True)
            subprocess.run([dvc, "config", "cache.type", "copy"], cwd=project, check=True)

        cases["dvc add"] = _after(
            prepare, lambda: _children([dvc, "add", "-q", "data"], cwd=project)
        )
    return cases


def _in_bucket(source: Path, address: str) -> dict[str, Case]:
    client = boto3.client("s3", endpoint_url=address)
    numbers = iter(range(1000))

    def bucket() -> str:
        name = f"bench{next(numbers)}"
        client.create_bucket(Bucket=name)
        return name

    def sync() -> Cost:
        name = bucket()
        usage, start = _own(), time.perf_counter()
        with ThreadPoolExecutor(10) as pool:  # as many as `aws s3 sync` has
            list(pool.map(lambda p: client.upload_file(str(p), name, p.name), source.iterdir()))
        return Cost(time.perf_counter() - start, _own() - usage)

    def ours() -> Cost:
        place = f"s3://{bucket()}/lake"
        return _children([sys.executable, "-c", _WAY_IN, place, source, address])

    return {"boto3, ten at a time": sync, "storing the files in a lake": ours}


def _own() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _children(command: list[str | Path], cwd: Path | None = None) -> Cost:
    """What a command costs, with all that it starts."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, start = used(), time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return Cost(time.perf_counter() - start, used() - before)


def _shell(script: str, source: Path, copy: Path) -> Case:
    command = ["sh", "-euc", script, "sh", str(source), str(copy)]
    return _after(lambda: harness.fresh(copy), lambda: _children([*command]))


def _after(prepare: Callable[[], object], work: Case) -> Case:
    def case() -> Cost:
        prepare()
        os.sync()  # what the preparation left to be written is not to be paid for here
        return work()

    return case


def _dvc(folder: Path) -> Path | None:
    """The command, in an environment of its own; None where it cannot be installed."""
    home = Path(os.environ.get("SINGERLAKE_BENCH_DVC", folder / "dvc"))
    with suppress(subprocess.CalledProcessError):
        if not home.exists():
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            subprocess.run([home / "bin/pip", "install", "-q", "dvc"], check=True)
        return home / "bin/dvc"
    return None
