"""singerlake demo: the whole road once, on this machine, or just a tap's messages to begin with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from singerlake.errors import SingerlakeError, UsageError
from singerlake_cli import demo_messages
from singerlake_cli.shared import need_spark

SUMS = (
    "select status, count(*) as orders, round(sum(total), 2) as total "
    "from {} group by status order by status"
)
WITH_COUPON = (
    "select o.id, c.name, c.city, o.total, o.coupon from tap_shop.orders o "
    "join tap_shop.customers c on c.id = o.customer_id where o.coupon is not null "
    "order by o.id limit 5"
)

CORRECTIONS = "id,status\n43,paid\n44,paid\n46,paid\n"
"""Cells to change; those that the file does not name stay as they are."""


@click.command("demo")
@click.argument("folder", default="singerlake-demo", type=click.Path(path_type=Path))
@click.option(
    "--messages",
    "day",
    is_flag=False,
    flag_value="monday",
    type=click.Choice(list(demo_messages.DAYS)),
    metavar="[DAY]",
    help="Only print a sample tap's messages, to try a target with: those of its first sync "
    "(monday, the default) or of its second (tuesday).",
)
def command(folder: Path, day: str | None) -> None:
    """Sync, freeze, query and replay a sample in a new FOLDER.

    Needs no network. It prints every command that it runs, and leaves a real lake: run the commands
    again in the folder.

    \b
    singerlake demo
    singerlake demo my-first-lake
    singerlake demo --messages | target-singerlake --config '{"tap_id": "tap-shop"}'
    """
    if day is not None:
        for message in demo_messages.DAYS[day]():
            click.echo(message)
        return
    need_spark()  # half of the story is no story
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name another folder, or delete it first")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ.pop("SINGERLAKE_LAKE", None)
    _write_inputs()
    try:
        _story()
    except subprocess.CalledProcessError as error:
        raise SingerlakeError(
            f"{shlex.join(error.cmd)} ended with exit code {error.returncode}: "
            + " ".join(error.stderr.split())
        ) from error
    _say("Done. Explore the lake:")
    click.echo(f"  cd {shlex.quote(str(folder))} && {_typed()} ls\n")


def _write_inputs() -> None:
    for name, messages in demo_messages.DAYS.items():
        text = "".join(f"{message}\n" for message in messages())
        Path(f"{name}.jsonl").write_text(text, encoding="utf-8")
    Path("corrections.csv").write_text(CORRECTIONS, encoding="utf-8")
    Path("target.json").write_text(json.dumps({"lake": "lake", "tap_id": "tap-shop"}) + "\n")
    Path("tap.json").write_text(json.dumps({"lake": "lake", "tap_id": "tap-shop"}) + "\n")


def _story() -> None:
    _say("Monday: a tap's messages go into a lake (two streams, 1,100 records)")
    _pipe("target-singerlake", ["--config", "target.json"], "monday.jsonl", "state.json")
    _cli("ls")
    _say("Freeze this snapshot: version 1 of the orders, forever")
    _cli("freeze", "tap-shop.orders", "--label", "monday", "--comment", "before the new shop")
    _cli("query", SUMS.format("tap_shop.orders.1"))
    _say("Tuesday: updates, deletes, new rows, and a column that was not there before")
    _pipe("target-singerlake", ["--config", "target.json"], "tuesday.jsonl", "state.json")
    _say("The table has changed, version 1 has not")
    _cli("query", SUMS.format("tap_shop.orders.1"))
    _cli("query", SUMS.format("tap_shop.orders"))
    _cli("query", WITH_COUPON)
    _cli("rows", "tap-shop.orders", "--key", "41", "--history")
    _say("Monday was right after all: revert the orders, as one more transaction")
    _cli("revert", "tap-shop.orders", "--to", "monday")
    _cli("query", SUMS.format("tap_shop.orders"))
    _cli("history", "tap-shop.orders")
    _say("Monday's rows are back. Frozen again, by Spark this time, they have the same fingerprint")
    _cli("freeze", "tap-shop.orders", "--label", "monday-again", "--engine", "spark")
    _cli("versions", "tap-shop.orders")
    _same_fingerprint("tap-shop.orders", "monday", "monday-again")
    _say("The shop calls: three orders are paid. A CSV corrects them, as one more transaction")
    _show("cat corrections.csv")
    click.echo(CORRECTIONS, nl=False)
    _cli("upload", "tap-shop.orders", "corrections.csv", "--comment", "as the shop called")
    _cli("diff", "tap-shop.orders", "monday")
    _say("For other tools: published as Parquet, the newest orders first")
    place = ["--to", "published/orders", "--order-by", "ordered_at desc"]
    _cli("publish", "--table", "tap_shop.orders", *place)
    _cli("publish", "--table", "tap_shop.orders", *place)
    _read_published("published/orders")
    _say("Back out: every record, byte for byte, into any Singer target")
    _pipe("tap-singerlake", ["--config", "tap.json"], None, "everything.jsonl")
    _count("everything.jsonl")
    _compare()
    _keep_state("everything.jsonl", "tap-state.json")
    _say("Again, from the last STATE: nothing is new, so no record is emitted")
    _pipe(
        "tap-singerlake", ["--config", "tap.json", "--state", "tap-state.json"], None, "new.jsonl"
    )
    _count("new.jsonl")


def _same_fingerprint(table: str, *labels: str) -> None:
    """Compare versions of the same rows; the demo fails if they differ."""
    from singerlake.lake import Lake

    snapshot = Lake.open("lake").table(table).snapshot()
    if len({snapshot.version(label).fingerprint for label in labels}) > 1:
        raise SingerlakeError(f"the same rows have several fingerprints: {', '.join(labels)}")


def _read_published(place: str) -> None:
    """Read the published rows with DuckDB, if that is installed."""
    try:
        import duckdb
    except ImportError:
        return
    latest = json.loads(Path(place, "_latest.json").read_text(encoding="utf-8"))
    sql = SUMS.format(f"'{place}/{latest['folder']}*.parquet'")
    _show(f'duckdb -c "{sql}"')
    click.echo(str(duckdb.sql(sql)).rstrip())


def _say(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)


def _show(command: str) -> None:
    click.secho(f"$ {command}", fg="cyan")


def _cli(*args: str) -> None:
    from singerlake_cli.main import cli

    _show(" ".join(["singerlake", *(f'"{arg}"' if " " in arg else arg for arg in args)]))
    code = cli.main(args=list(args), prog_name="singerlake", standalone_mode=False)
    if code:
        raise SingerlakeError(f"singerlake {args[0]} ended with exit code {code}")


def _pipe(plugin: str, args: list[str], source: str | None, to: str) -> None:
    """Run a plugin as its own process, as a pipeline does."""
    _show(
        shlex.join([plugin, *args]) + (f" < {source}" if source else "") + f" > {shlex.quote(to)}"
    )
    with Path(source or os.devnull).open("rb") as stdin, Path(to).open("wb") as stdout:
        done = subprocess.run(
            [*_program(plugin), *args],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=True,
            text=True,
            env={**os.environ, "LOGLEVEL": "INFO"},
        )
    for line in done.stderr.splitlines()[-1:]:
        click.echo(f"  {line.rsplit('| ', 1)[-1]}")


def _program(plugin: str) -> list[str]:
    beside = Path(sys.executable).with_name(plugin)
    if beside.exists():
        return [str(beside)]
    program = shutil.which(plugin)
    return [program] if program else [sys.executable, "-m", plugin.replace("-", "_")]


def _typed() -> str:
    """Return how to call this program in the terminal, even if its environment is not active."""
    own, found = Path(sys.executable).with_name("singerlake"), shutil.which("singerlake")
    if found and (not own.exists() or Path(found).resolve() == own.resolve()):
        return "singerlake"
    return shlex.join([str(own)] if own.exists() else [sys.executable, "-m", "singerlake_cli"])


def _types(lines: Iterable[str]) -> Counter[str]:
    return Counter(json.loads(line)["type"] for line in lines)


def _count(path: str) -> None:
    with Path(path).open(encoding="utf-8") as lines:
        counts = _types(lines)
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in ("SCHEMA", "RECORD", "STATE"))
    click.echo(f"  {path}: {told}")


def _compare() -> None:
    """Compare the output with the input; the demo fails if they differ."""
    went_in = [line for day in demo_messages.DAYS for line in _records(f"{day}.jsonl")]
    if Counter(went_in) - Counter(_records("everything.jsonl")):
        raise SingerlakeError("what came out of the lake is not what went in")
    click.echo(
        f"  all {len(went_in):,} RECORD lines that went in are among them, the same bytes; "
        "the others are the revert's and the correction's"
    )


def _records(path: str) -> list[bytes]:
    with Path(path).open("rb") as lines:
        return [line for line in lines if line.startswith(b'{"type": "RECORD"')]


def _keep_state(path: str, to: str) -> None:
    with Path(path).open(encoding="utf-8") as lines:
        states = [message for line in lines if (message := json.loads(line))["type"] == "STATE"]
    Path(to).write_text(json.dumps(states[-1]["value"]) + "\n", encoding="utf-8")
    click.echo(f"  its last STATE, kept as {to}, as a pipeline runner does")
