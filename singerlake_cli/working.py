"""Progress of long work: on stderr, and only on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from singerlake.safe_text import visible

Progress = Callable[[], tuple[str, int, int]]
"""What the running job is at, in words, and how many of how many tasks of that are done."""

EVERY_SECONDS = 0.2
BAR_WIDTH = 12
_progress: Progress | None = None


def follow(progress: Progress) -> None:
    """Say what tells how far the work under way is."""
    global _progress  # noqa: PLW0603  # one terminal, one bar
    _progress = progress


def _now() -> tuple[str, int, int]:
    with suppress(Exception):  # Java may be going down: the work says so, not its bar
        if _progress is not None:
            return _progress()
    return "", 0, 0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a bar for as long as something goes on: the stage that it is at, and its share.

    Args:
        what: The work as a whole, for example ``freezing tap-shop.orders``.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.table import Column

    # The words get what a narrow terminal has left, and are never wrapped: the bar is one line.
    words = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False, table_column=words),
        bars.BarColumn(BAR_WIDTH),
        bars.TextColumn("{task.fields[share]:>4}", markup=False),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(
        *columns, console=Console(stderr=True), transient=True, expand=True
    ) as shown:
        bar = shown.add_task(visible(what), total=None, share="")
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(EVERY_SECONDS):
                stage, done, known = _now()
                shown.update(
                    bar,
                    description=visible(f"{what}: {stage}" if stage else what),
                    completed=done,
                    total=known or None,
                    share=f"{100 * done // known}%" if known else "",
                )

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
