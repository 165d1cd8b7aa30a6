"""The README's commands, in order, and what it shows that they print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WIDTH = 100
_BLOCK = re.compile(r"^```(sh|console|python)\n(.*?)^```", re.M | re.S)
_VARIES = {
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?Z?": "TIME",
    r"\b\d+ (s|min|h|days?) ago": "AGO",
    r"\b[\d,.]+ (B|kB|MB)\b": "SIZE",
    r"─+": "─",
    r"\s+": " ",
}


@dataclass(frozen=True)
class Step:
    """One command, or one block of Python.

    Attributes:
        number: Its place among all of them.
        language: Of its block: ``sh``, ``console`` (with output) or ``python``.
        command: Without prompt and comment.
        output: What the README shows that it prints; empty where it shows nothing.
    """

    number: int
    language: str
    command: str
    output: str = ""


def steps(readme: Path) -> list[Step]:
    """Everything to run, in order."""
    found: list[Step] = []
    for language, block in _BLOCK.findall(readme.read_text(encoding="utf-8")):
        if language == "python":
            found.append(Step(len(found), language, block))
        elif language == "sh":
            for line in block.splitlines():
                if command := re.sub(r"\s+#.*", "", line).strip():
                    found.append(Step(len(found), language, command))
        else:
            for command, output in _console(block):
                found.append(Step(len(found), language, command, output))
    return found


def _console(block: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def shape(output: str) -> str:
    """An output without what differs from run to run: times, sizes, widths."""
    for pattern, word in _VARIES.items():
        output = re.sub(pattern, word, output)
    return output.strip()


def _laid_out(printed: str) -> list[str]:
    """An output's lines as the README has them: sentences wrapped, as on a terminal."""
    lines = []
    for line in (one.rstrip() for one in printed.splitlines() if one.strip()):
        sentence = len(line) > WIDTH and "  " not in line and "──" not in line
        lines += textwrap.wrap(line, WIDTH, break_on_hyphens=False) if sentence else [line]
    return lines


def write(readme: Path, outputs: Mapping[int, str]) -> None:
    """Put what the commands printed where the README shows output."""
    numbers = iter(step.number for step in steps(readme) if step.language == "console")

    def filled(block: re.Match[str]) -> str:
        if block[1] != "console":
            return block[0]
        lines = []
        for command, shown in _console(block[2]):
            lines.append(f"$ {command}")
            printed = outputs.get(next(numbers), "")
            if shown:
                lines += _laid_out(printed)
        return "```console\n" + "\n".join(lines) + "\n```"

    text = readme.read_text(encoding="utf-8")
    readme.write_text(_BLOCK.sub(filled, text), encoding="utf-8")
