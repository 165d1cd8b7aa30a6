"""A page's commands, in order, and what it shows that they print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 100
_BLOCK = re.compile(r"^( *)```(\w+)((?: [^\n`]*)?)\n(.*?)^ *```", re.M | re.S)
_BEGINS = re.compile(r"^<!-- begins with: (.+) -->$", re.M)
_VARIES = {
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?Z?": "TIME",
    r"\b\d+ (s|min|h|days?) ago": "AGO",
    r"\b[\d,.]+ (B|kB|MB)\b": "SIZE",
    # That of a folder has the times of its files in it.
    r"\bfingerprint lt1:[0-9a-f]{8}\b": "FINGERPRINT",
    r"\bSHA256:[A-Za-z0-9+/]{43}": "KEY",  # of a key, or of a signed text: with a salt, or times
    r"\b(content|head \d+) [0-9a-f]{64}\b": "DIGITS",
    r'"(chain|hash)": "[0-9a-f]{64}"': "DIGITS",  # of a log entry, with its time
    r"─+": "─",
    r"\s+": " ",
}


@dataclass(frozen=True)
class Step:
    """One command, one block of Python, or one file.

    Attributes:
        number: Its place among all of them.
        language: Of its block: ``sh``, ``console`` (with output), ``python``, or ``file``.
        command: Without prompt and comment; a file's text.
        output: What the page shows that it prints; empty where it shows nothing.
        file: Where the text is to be put.
    """

    number: int
    language: str
    command: str
    output: str = ""
    file: str = ""


def steps(page: Path) -> list[Step]:
    """Everything to run, in order."""
    found: list[Step] = []
    for indent, language, more, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        block = textwrap.dedent(text) if indent else text
        if named := re.search(r" file=(\S+)", more):
            found.append(Step(len(found), "file", block, file=named[1]))
        elif language == "python":
            found.append(Step(len(found), language, block))
        elif language == "sh":
            for line in block.replace("\\\n", " ").splitlines():
                if command := re.sub(r"\s+#.*|^#.*", "", line).strip():
                    found.append(Step(len(found), language, command))
        elif language == "console":
            for command, output in _console(block):
                found.append(Step(len(found), language, command, output))
    return found


def begins_with(page: Path) -> set[str]:
    """What is in a page's folder before its first step, by the comment in its source."""
    found = _BEGINS.findall(page.read_text(encoding="utf-8"))
    return {word.strip() for words in found for word in words.split(",")}


def _console(block: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def shape(output: str) -> str:
    """An output without what differs from run to run: times, sizes, widths, fingerprints."""
    for pattern, word in _VARIES.items():
        output = re.sub(pattern, word, output)
    return output.strip()


def _laid_out(printed: str) -> list[str]:
    """An output's lines as a page has them: sentences wrapped, as on a terminal."""
    lines = []
    for line in (one.rstrip() for one in printed.splitlines() if one.strip()):
        sentence = len(line) > WIDTH and "  " not in line and "──" not in line
        sentence = sentence and not line.startswith("{")
        lines += textwrap.wrap(line, WIDTH, break_on_hyphens=False) if sentence else [line]
    return lines


def write(page: Path, outputs: Mapping[int, str]) -> None:
    """Put what the commands printed where the page shows output."""
    numbers = iter(step.number for step in steps(page) if step.language == "console")

    def filled(block: re.Match[str]) -> str:
        if block[2] != "console":
            return block[0]
        lines = []
        for command, shown in _console(block[4]):
            lines.append(f"$ {command}")
            printed = outputs.get(next(numbers), "")
            if shown:
                lines += _laid_out(printed)
        return "```console\n" + "\n".join(lines) + "\n```"

    text = page.read_text(encoding="utf-8")
    page.write_text(_BLOCK.sub(filled, text), encoding="utf-8")
