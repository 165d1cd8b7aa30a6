"""Progress of long work: on stderr, and only on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from singerlake.safe_text import visible

Tasks = Callable[[], tuple[int, int]]
"""How many tasks of the running job are done, and of how many that are known so far."""

EVERY_SECONDS = 0.2
_tasks: Tasks | None = None


def follow(tasks: Tasks) -> None:
    """Say how the work under way counts its progress."""
    global _tasks  # noqa: PLW0603  # one terminal, one bar
    _tasks = tasks


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a bar for as long as something goes on; it fills once Spark counts tasks."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    told = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), told, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(visible(what), total=None)
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(EVERY_SECONDS):
                done, known = _tasks() if _tasks is not None else (0, 0)
                progress.update(bar, completed=done, total=known or None)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
