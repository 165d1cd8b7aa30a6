"""Recorded runs, as the module Trace wants them: ``python -m model.traces JOURNAL``.

A journal has one JSON object a line, each an operation on the store in the order in which they
took effect; ``tests/recorder.py`` writes them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.checks import lake
from model.tlc import Check, run
from singerlake.format import file_paths

Step = dict[str, Any]
_TABLE = re.compile(r"(raw/[^/]+/[^/]+/)(.*)", re.DOTALL)
_KINDS = {
    "freeze": "freeze",
    "vacuum-start": "start",
    "combine": "move",
    "drop-history": "move",
    "vacuum": "done",
    "drop": "drop",
    "undrop": "undrop",
    "change": "change",
    "revert": "change",
    "alter": "change",
}
_AT_ONCE = 100
"""Traces that TLC is given in one module; it reads a long one slowly."""
_LEAVES_DROPPED = {"drop", "start", "done"}


@dataclass(frozen=True)
class Verdict:
    """What TLC says of one trace.

    Attributes:
        accepted: Whether it is a behaviour of the model.
        at: How many of its steps are; where it is not accepted, the next is refused.
        broken: The invariant that does not hold there, if that is why.
    """

    accepted: bool
    at: int
    broken: str = ""


@dataclass
class _Table:
    """One table's steps, and what is needed to tell them."""

    steps: list[Step] = field(default_factory=list)
    places: dict[int, set[str]] = field(default_factory=dict)
    dropped: dict[int, set[str]] | None = None
    lists: dict[str, set[str]] = field(default_factory=dict)
    outside: bool = False
    chain: str = ""
    born: dict[str, str] = field(default_factory=dict)
    disk: set[str] = field(default_factory=set)
    leases: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)

    def add(self, op: str, maybe: bool = False, **more: Any) -> None:
        self.steps.append({"op": op, "maybe": maybe, **more})

    def found(self, keys: Iterable[str], entries: Iterable[str], lists: dict[str, str]) -> None:
        """What was there before; a table that has lost its log is none of the model's."""
        there = {key for key in keys if _is_data(key)}
        self.lists = {path: set(text.split("\n")) for path, text in lists.items()}
        log = [json.loads(text) for text in entries]
        self.outside = [entry["number"] for entry in log] != [*range(1, len(log) + 1)]
        self.outside |= bool(there) and not log
        for entry in log:
            for block in [*entry.get("blocks", ()), *entry.get("moved", ())]:
                for file in sorted(self.named(block)):
                    self.publish(file, "earlier")
            self.append(entry)
        for file in sorted(there):
            self.publish(file, "earlier")
        for file in sorted(self.disk - there):
            self.disk.discard(file)
            self.add("vanish", file=file)

    def named(self, block: dict[str, Any]) -> set[str]:
        """What is there for a block: its file, its list, and the files that this names."""
        listed = (block.get("files") or {}).get("path")
        return {block["file"]} | ({listed, *self.lists.get(listed, ())} if listed else set())

    def publish(self, file: str, actor: str, maybe: bool = False) -> None:
        """A file got its name; one that rows name may get it again, if another lake gave it."""
        content = file_paths.is_content(file)
        if file not in self.born or (content and file not in self.disk):
            self.born[file] = actor
            self.disk.add(file)
            self.add("publish", maybe, file=file, content=content)

    def append(self, entry: dict[str, Any], maybe: bool = False) -> None:
        """A log entry was created."""
        before = set().union(*self.places.values())
        follows = entry.get("format") == 1 or entry.get("previous", "") == self.chain
        kind = _KINDS.get(entry["operation"], "sync")
        if kind == "drop" and self.dropped is None:
            self.places, self.dropped = {}, self.places
        elif self.dropped is not None and kind not in _LEAVES_DROPPED:
            self.places, self.dropped = self.dropped if kind == "undrop" else {}, None
        gone = {n for first, last in entry.get("removed", ()) for n in range(first, last + 1)}
        for number in gone:
            self.places.pop(number, None)
        for block in [*entry.get("blocks", ()), *entry.get("moved", ())]:
            self.places[block["number"]] = self.named(block)
        after = set().union(*self.places.values())
        for file in sorted(after - before):
            self.publish(file, "an executor")  # of whose process nothing is recorded
        going = {*entry.get("deletes", ())}
        if (listed := entry.get("deletes_listed")) is not None:
            going |= self.lists.get(listed["path"], set())
        self.chain = entry.get("stands_for") or entry.get("hash", "")
        self.add(
            "append",
            maybe,
            number=entry["number"],
            who=entry.get("writer", ""),
            kind=kind,
            follows=follows,
            adds=after - before,
            drops=before - after,
            deletes=going,
        )

    def lease(self, reader: str, text: str, thread: str, maybe: bool) -> None:
        """A lease is there, where none was."""
        if reader not in self.leases:
            self.leases.add(reader)
            self.waiting[thread] = reader
            self.add("lease", maybe, who=reader, number=json.loads(text)["transaction"])

    def end_seen(self, thread: str, number: int) -> None:
        """The log was read to its end: by the reader that took its lease in this thread."""
        if (reader := self.waiting.pop(thread, None)) in self.leases:
            self.add("reread", who=reader, number=number)

    def data_file(self, op: str, file: str, actor: str, maybe: bool) -> None:
        """Something was done to a data file, to a block's list, or to a file that rows name."""
        if op in {"publish", "put"}:
            self.publish(file, actor, maybe)
        elif op == "delete" and file in self.disk:
            self.disk.discard(file)
            content = file_paths.is_content(file)
            own = self.born[file] == actor and not content
            self.add("delete", maybe, who=actor, file=file, own=own, content=content)


def steps(lines: Iterable[str]) -> dict[str, list[Step]]:
    """The steps of each table of each lake that a journal tells of, by its name."""
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    done = {event["n"] for event in events if not event.get("intent")}
    created = {_entry(event) for event in events if _entry(event) and not event.get("intent")}
    tables: dict[str, _Table] = {}
    lakes: set[str] = set()
    for event in events:
        if event["op"] == "found":
            if event["lake"] not in lakes:
                lakes.add(event["lake"])
                _begin(tables, event)
            continue
        if event.get("failed"):
            continue
        # An entry is created once: who was killed over one that another created, did not create it.
        if event.get("intent") and (event["n"] in done or _entry(event) in created):
            continue
        if (match := _TABLE.fullmatch(event["key"])) is not None:
            name = f"{event['lake']}:{match[1]}"
            _take(tables.setdefault(name, _Table()), match[2], event)
    return {name: one.steps for name, one in tables.items() if one.steps and not one.outside}


def _entry(event: dict[str, Any]) -> tuple[str, str] | None:
    """Which log entry somebody wanted to create and, as far as they know, did."""
    if event["op"] != "put" or event.get("failed") or "/transactions/" not in event["key"]:
        return None
    return event["lake"], event["key"]


def _begin(tables: dict[str, _Table], event: dict[str, Any]) -> None:
    inside: dict[str, tuple[list[str], list[str], dict[str, str]]] = {}
    for key in event["keys"]:
        if (match := _TABLE.fullmatch(key)) is not None:
            keys, entries, lists = inside.setdefault(match[1], ([], [], {}))
            keys.append(match[2])
            if key in event.get("lists", {}):
                lists[match[2]] = event["lists"][key]
            if key in event["entries"]:
                entries.append(event["entries"][key])
    for table, (keys, entries, lists) in inside.items():
        tables[f"{event['lake']}:{table}"] = found = _Table()
        found.found(keys, entries, lists)


def _take(table: _Table, key: str, event: dict[str, Any]) -> None:
    op, maybe = event["op"], bool(event.get("intent"))
    if key.startswith("transactions/"):
        if op == "put":
            table.append(json.loads(event["data"]), maybe)
        elif op == "get" and event.get("missing"):
            table.end_seen(event["thread"], int(key[13:25]) - 1)
    elif key.startswith("leases/") and key.endswith(".json"):
        reader = key[len("leases/") : -len(".json")]
        if op in {"put", "replace"}:
            table.lease(reader, event["data"], event["thread"], maybe)
        elif op == "delete" and reader in table.leases:
            table.leases.discard(reader)
            table.add("release", maybe, who=reader)
    elif op == "list" and key in {"", "leases/"}:
        table.add("list", who=event["actor"])
    else:
        if op == "put" and file_paths.is_list(key):
            table.lists[key] = set(event["data"].split("\n"))
        if _is_data(key):
            table.data_file(op, key, event["actor"], maybe)


def _is_data(path: str) -> bool:
    """Whether it is what a block needs; lists of what is to go are none of it."""
    if file_paths.is_list(path):
        return not file_paths.is_doomed(path)
    return path.endswith(".singer.gz") or file_paths.is_content(path)


def verdicts(traces: Sequence[Sequence[Step]]) -> list[Verdict]:
    """Ask TLC whether each is a behaviour of the model; those that are alike, once."""
    texts = [_sequence(trace) for trace in traces]
    unlike = list(dict.fromkeys(texts))
    found: dict[str, Verdict] = {}
    for first in range(0, len(unlike), _AT_ONCE):
        some = unlike[first : first + _AT_ONCE]
        found.update(zip(some, _verdicts(some), strict=True))
    return [found[text] for text in texts]


def _verdicts(sequences: Sequence[str]) -> list[Verdict]:
    text = "---- MODULE Run ----\nEXTENDS Trace\nTheTraces == <<\n"
    text += ",\n".join(sequences) + "\n>>\n====\n"
    constants = {**lake(0, 0, 0, 0, 0), "Traces": "<- TheTraces"}
    left = set(range(1, len(sequences) + 1))
    check = Check(
        "traces",
        "Run",
        {**constants, "Only": "<- TheOnes"},
        ("TraceKeepsInvariants",),
        specification="TraceSpec",
        symmetry=False,
    )
    found: dict[int, Verdict] = {}
    while left:  # an invariant that fails ends TLC: the traces after it are asked for again
        ones = "TheOnes == {" + ", ".join(map(str, sorted(left))) + "}\n"
        module = text.replace("\n====\n", f"\n{ones}====\n")
        outcome = run(check, files={"Run.tla": module}, memory="2g")
        at: dict[int, int] = {}
        for trace, step in re.findall(r'<<"at", (\d+), (\d+)>>', outcome.text):
            at[int(trace)] = max(at.get(int(trace), 0), int(step))
        accepted = {int(n) for n in re.findall(r'<<"accepted", (\d+)>>', outcome.text)}
        broken = 0
        if outcome.violated:
            broken = int(re.findall(r"/\\ t = (\d+)", outcome.text)[-1])
        for n in left if not broken else accepted | {broken}:
            why = outcome.violated if n == broken else ""
            found[n] = Verdict(n in accepted and not why, at.get(n, 1) - 1, why)
        left -= found.keys()
    return [found[n] for n in range(1, len(sequences) + 1)]


def _sequence(trace: Sequence[Step]) -> str:
    names: dict[str, str] = {}

    def word(value: Any, name: str) -> str:
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, set):
            return "{" + ", ".join(sorted(word(one, name) for one in value)) + "}"
        if name in {"op", "kind"}:
            return f'"{value}"'
        return f'"{names.setdefault(value, f"x{len(names)}")}"'

    steps = (
        "[" + ", ".join(f"{name} |-> {word(value, name)}" for name, value in step.items()) + "]"
        for step in trace
    )
    return "<<" + ",\n".join(steps) + ">>"


def main(paths: Sequence[str]) -> int:
    """Check journals, and say of each table's trace whether it is accepted."""
    named: dict[str, list[Step]] = {}
    for path in paths:
        with Path(path).open(encoding="utf-8") as file:
            named.update({f"{path}:{name}": trace for name, trace in steps(file).items()})
    refused = 0
    for (name, trace), verdict in zip(named.items(), verdicts([*named.values()]), strict=True):
        if not verdict.accepted:
            refused += 1
            why = verdict.broken or trace[min(verdict.at, len(trace) - 1)]
            print(f"refused: {name}\n  step {verdict.at + 1}: {why}")
    count = sum(map(len, named.values()))
    print(
        f"{len(named) - refused} of {len(named)} traces are behaviours of the model, {count} steps"
    )
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
