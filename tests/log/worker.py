"""A writer as a process of its own: commits rows of one table, and says what is committed.

Run as ``python -m tests.log.worker SETTINGS``. It says ``ready``, waits for a line,
then for each commit says the id of its row. With ``stop`` set it says ``published`` between
publishing and committing, and waits for a line there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from singerlake.errors import ConflictError, SingerlakeError
from singerlake.format.log import SchemaEntry
from singerlake.log.staging import StagedTable
from singerlake.log.writer import TableWriter, WriteOptions
from singerlake.storage.base import Store
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from tests.log.broken import PROPERTIES, SCHEMA, TABLE, staged_rows
from tests.log.non_conditional import NonConditionalStore


class Worker:
    """One such process."""

    def __init__(self, **settings: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.log.worker", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.says() == "ready"

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> tuple[list[str], str, int]:
        """The lines that it still says, its errors and its exit code."""
        out, err = self.process.communicate(timeout=120)
        return out.split(), err, self.process.returncode


def run_together(workers: list[Worker]) -> list[int]:
    """Let all go at once; the ids that they acknowledged."""
    for worker in workers:
        worker.go()
    found: list[int] = []
    for worker in workers:
        said, err, code = worker.end()
        assert code == 0, err
        found += map(int, said)
    return found


def open_it(settings: dict[str, Any]) -> Store:
    if settings["kind"] == "non-conditional":
        return NonConditionalStore(
            Path(settings["uri"]), settings["settle"], settings.get("lag", 0.0)
        )
    return open_store(settings["uri"], StoreOptions(**settings.get("options", {})))


def wait() -> None:
    sys.stdin.readline()


def say(text: object) -> None:
    print(text, flush=True)


def stop_between_publishing_and_committing() -> None:
    publish = StagedTable.publish

    def stopping(staged: StagedTable, *taken: Any) -> None:
        publish(staged, *taken)
        say("published")
        wait()

    StagedTable.publish = stopping  # type: ignore[method-assign]


def main(settings: dict[str, Any]) -> None:
    store = open_it(settings)
    options = WriteOptions(lock_stale_seconds=settings.get("stale", 60.0))
    schema = SCHEMA
    if "column" in settings:  # another schema, hence another lock
        columns = {**PROPERTIES, settings["column"]: {}}
        schema = SchemaEntry({"type": "object", "properties": columns}, [])
    if settings.get("stop"):
        stop_between_publishing_and_committing()
    say("ready")
    wait()
    writer = TableWriter(store, TABLE, options)
    for number in range(settings["first"], settings["first"] + settings["commits"]):
        while True:
            try:
                writer.commit(staged_rows(store, number, schema=schema))
                break
            except ConflictError:
                if settings.get("stop"):
                    raise
        say(number)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except SingerlakeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
