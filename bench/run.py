"""The target and the tap beside their peers, in one go. See bench/README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PEER_ROWS = 50_000
"""target-jsonl takes a minute for a million rows; its rate does not depend on their number."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="singerlake-bench-") as folder:
        bench = Bench(Path(folder), args.rows)
        cases = bench.cases()
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(args.rounds):
            for name, case in cases.items():
                started = time.perf_counter()
                case()
                times[name].append(time.perf_counter() - started)
        report(bench, {name: statistics.median(values) for name, values in times.items()}, times)


class Bench:
    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.rows = rows
        self.one = self.messages("one", rows, 1)
        self.many = self.messages("many", rows, 200)
        self.small = self.messages("small", min(rows, PEER_ROWS), 1)
        self.peer = folder / "peer"
        venv.create(self.peer, with_pip=True)
        pip = [self.peer / "bin" / "pip", "install", "--quiet", "target-jsonl", "setuptools<80"]
        subprocess.run(pip, check=True)

    def messages(self, name: str, rows: int, streams: int) -> Path:
        path = self.folder / f"{name}.jsonl"
        with path.open("wb") as out:
            maker = [sys.executable, HERE / "make_messages.py", str(rows), str(streams)]
            subprocess.run(maker, check=True, stdout=out)
        return path

    def cases(self) -> dict[str, Callable[[], None]]:
        return {
            "target, validation on": lambda: self.target(self.one, validate=True),
            "target, validation off": lambda: self.target(self.one, validate=False),
            "target, 200 streams": lambda: self.target(self.many, validate=True),
            "isal alone, one thread": lambda: self.isal(self.one),
            "target-jsonl": self.target_jsonl,
            "tap": lambda: self.read([str(BIN / "tap-singerlake"), "--config", self.config("one")]),
            "zcat": lambda: self.read(["sh", "-c", f"zcat {self.folder}/lake-one/raw/*/*/*/*.gz"]),
        }

    def config(self, name: str, **more: object) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"lake": f"{self.folder}/lake-{name}", "tap_id": "b", **more}))
        return str(path)

    def target(self, source: Path, *, validate: bool) -> None:
        shutil.rmtree(self.folder / f"lake-{source.stem}", ignore_errors=True)
        config = self.config(source.stem, validate_records=validate)
        self.run([str(BIN / "target-singerlake"), "--config", config], source)
        lake = ["--lake", f"{self.folder}/lake-{source.stem}", "--output", "json", "ls"]
        listed = subprocess.run([BIN / "singerlake", *lake], check=True, stdout=subprocess.PIPE)
        assert sum(table["records"] for table in json.loads(listed.stdout)) == self.rows

    def isal(self, source: Path) -> None:
        code = (
            "import sys\nfrom isal import isal_zlib\n"
            "with open(sys.argv[1], 'rb') as f, open(sys.argv[2], 'wb') as g:\n"
            "    while data := f.read(8 << 20):\n        g.write(isal_zlib.compress(data, 2, 31))\n"
        )
        subprocess.run([sys.executable, "-c", code, source, self.folder / "isal.gz"], check=True)

    def target_jsonl(self) -> None:
        out = self.folder / "jsonl"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        config = self.folder / "jsonl.json"
        config.write_text(json.dumps({"destination_path": str(out)}))
        self.run([str(self.peer / "bin" / "target-jsonl"), "--config", str(config)], self.small)

    def run(self, command: list[str], source: Path) -> None:
        with source.open("rb") as stdin:
            subprocess.run(
                command,
                check=True,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LOGLEVEL": "WARNING"},
            )

    def read(self, command: list[str]) -> None:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        records = 0
        while data := process.stdout.read(1 << 20):
            records += data.count(b'{"type": "RECORD"')
        assert process.wait() == 0
        assert abs(records - self.rows) <= self.rows // 100  # some are cut by the chunks


def report(bench: Bench, medians: dict[str, float], times: dict[str, list[float]]) -> None:
    peer_rate = min(bench.rows, PEER_ROWS) / medians["target-jsonl"]
    print(f"{bench.rows:,} records, {bench.one.stat().st_size / 1e6:,.0f} MB, medians\n")
    for name, seconds in medians.items():
        rows = min(bench.rows, PEER_ROWS) if name == "target-jsonl" else bench.rows
        rate = rows / seconds
        spread = f"{min(times[name]):.2f}–{max(times[name]):.2f}"
        print(f"{name:<24} {seconds:7.2f} s ({spread})  {rate:>12,.0f} records/s")
    print()
    for name in ("target, validation on", "target, validation off"):
        rate = bench.rows / medians[name]
        print(f"{name}: {rate / peer_rate:.0f}× the rate of target-jsonl, start-up included")
    ratio = medians["target, validation off"] / medians["isal alone, one thread"]
    print(f"target, validation off: {ratio:.2f}× the time of isal alone")
    ratio = medians["target, 200 streams"] / medians["target, validation on"]
    print(f"200 streams: {ratio:.2f}× the time of one")
    print(f"tap: {medians['tap'] / medians['zcat']:.2f}× the time of zcat")


if __name__ == "__main__":
    main()
