"""singerlake bookmark: where each pipeline's tap resumes, kept with the rows."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import msgspec

from singerlake import small_files
from singerlake.lake import Lake
from singerlake.log import bookmarks
from singerlake_cli import output
from singerlake_cli.shared import Shared, SubcommandGroup

if TYPE_CHECKING:
    from singerlake.ops.bookmark import Answer


@click.group("bookmark", cls=SubcommandGroup)
def command() -> None:
    """Keep the bookmarks of pipelines in the lake.

    meltano-state-backend-singerlake calls this command, so that Meltano keeps its state in the
    lake. A bookmark is never ahead of the tables: after a revert or an undo, it goes back to the
    STATE of that time, and the next run brings the undone records again.

    ID is a pipeline's, as in `meltano state list`: dev:tap-shop-to-target-singerlake.

    \b
    singerlake bookmark ls
    singerlake bookmark get dev:tap-shop-to-target-singerlake
    """


def _lake(shared: Shared) -> Lake:
    """Open the lake, which the pipeline's first run may not have created yet."""
    return Lake.open(shared.uri, create=True)


@command.command("ls")
@click.pass_obj
def ls(shared: Shared) -> None:
    """List the pipelines that have a bookmark.

    \b
    singerlake bookmark ls
    """
    found = bookmarks.ids(_lake(shared).store)
    shared.output.result(
        lambda: found, lambda: output.say_lines(found or ["the lake keeps no bookmarks"])
    )


@command.command("get")
@click.argument("state_id", metavar="ID")
@click.pass_obj
def get(shared: Shared, state_id: str) -> None:
    """Print the bookmark of a pipeline, as JSON.

    If a table was reverted since, or a sync undone, this is the STATE of that time, or null if the
    log does not contain it: the tap then sends everything again.

    \b
    singerlake bookmark get dev:tap-shop-to-target-singerlake
    """
    from singerlake.ops.bookmark import get_bookmark

    found = get_bookmark(_lake(shared), state_id)
    if not shared.json:
        for one in found.turned_back:
            shared.output.note(
                f"turned back, because {one.table} was turned back to transaction {one.transaction}"
                + ("" if one.acknowledged else ", for which the log contains no STATE")
            )
    shared.output.result(
        lambda: _document(found),
        lambda: output.say_whole(
            msgspec.json.format(msgspec.json.encode(_state(found)), indent=-1).decode()
        ),
    )


@command.command("set")
@click.argument("state_id", metavar="ID")
@click.pass_obj
def set_(shared: Shared, state_id: str) -> None:
    """Write the bookmark of a pipeline, from JSON on standard input.

    Write a STATE only after the target has emitted it. To undo part of a STATE by hand, edit what
    `singerlake bookmark get` prints.

    \b
    echo '{"completed": {"singer_state": {}}, "partial": {}}' |
        singerlake bookmark set dev:tap-shop-to-target-singerlake
    """
    from singerlake.ops.bookmark import MAX_BYTES, parse_bookmark, set_bookmark

    data = small_files.read_open(sys.stdin.buffer, "standard input", "bookmarks", MAX_BYTES)
    done = set_bookmark(_lake(shared), state_id, parse_bookmark(data))
    about = f", about {done.tap}" if done.tap else ""
    if not done.tap and not shared.json:
        shared.output.note(
            f"no tap of the lake is known for {state_id}, so a revert or undo will not turn it "
            "back: name the tap in the ID, such as dev:tap-shop-to-target-singerlake"
        )
    shared.output.result(
        lambda: _document(done), lambda: output.say(f"wrote the bookmark {state_id}{about}")
    )


@command.command("delete")
@click.argument("state_id", metavar="ID")
@click.pass_obj
def delete(shared: Shared, state_id: str) -> None:
    """Delete the bookmark of a pipeline: its next run sends everything again.

    \b
    singerlake bookmark delete dev:tap-shop-to-target-singerlake
    """
    from singerlake.ops.bookmark import delete_bookmark

    delete_bookmark(_lake(shared), state_id)
    shared.output.result(
        lambda: {"id": state_id}, lambda: output.say(f"there is no bookmark {state_id} any more")
    )


@command.command("lock")
@click.argument("state_id", metavar="ID")
@click.pass_obj
def lock(shared: Shared, state_id: str) -> None:
    """Lock the bookmark of a pipeline until standard input ends.

    Waits while another process holds the lock. `get` and `set` do not need it: take it to read a
    bookmark and write it as one step.

    \b
    singerlake bookmark lock dev:tap-shop-to-target-singerlake
    """
    from singerlake.log.locks.lock import Waiting
    from singerlake.ops.bookmark import bookmark_lock_of

    with bookmark_lock_of(_lake(shared), state_id, Waiting()):
        shared.output.result(
            lambda: {"id": state_id},
            lambda: output.say(f"locked {state_id} until standard input ends"),
        )
        sys.stdout.flush()
        while sys.stdin.buffer.read(1 << 16):
            pass


def _state(found: Answer) -> dict[str, Any] | None:
    if found.completed is None or found.partial is None:
        return None
    return {"completed": msgspec.Raw(found.completed), "partial": msgspec.Raw(found.partial)}


def _document(found: Answer) -> dict[str, Any]:
    return {
        "id": found.state_id,
        "tap": found.tap or None,
        "state": _state(found),
        "seen": found.seen,
        "turned_back": [
            {**asdict(one), "table": str(one.table)}  # a name is spelled as people write it
            for one in found.turned_back
        ],
    }
