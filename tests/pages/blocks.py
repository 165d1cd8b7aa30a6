"""All blocks of code of all pages, and what can be said of one without running it."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from singerlake_cli.main import COMMANDS, cli
from tap_singerlake.tap import TapSingerlake
from target_singerlake.target import TargetSingerlake
from tests.pages.steps import ROOT

_FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```", re.M | re.S)
_PLUGINS = {"tap-singerlake": TapSingerlake.cli, "target-singerlake": TargetSingerlake.cli}


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        page: Where it is.
        language: The first word behind its fence; empty where there is none.
        text: What is in it.
    """

    page: Path
    language: str
    text: str

    def __str__(self) -> str:
        """The page, and how the block begins."""
        return f"{self.page.relative_to(ROOT)}: {self.text[:60]!r}"


def pages() -> list[Path]:
    """Every page that people read: those of the site, and the README."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    found += sorted((ROOT / "bench").glob("*.md"))
    return [*found, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[Block]:
    """Their blocks of code; Sphinx's directives are none."""
    return [
        Block(page, (about.split() or [""])[0], textwrap.dedent(text))
        for page in pages()
        for _, about, text in _FENCE.findall(page.read_text(encoding="utf-8"))
        if not about.startswith("{")
    ]


def commands(text: str) -> Iterator[list[str]]:
    """The commands of this project in lines of a shell, as lists of words."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        words = re.sub(r"(^|\s)#.*", "", line)
        lexer = shlex.shlex(words.removeprefix("$ "), posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quote that ends in another line, or words of output
            continue
        yield from _ours(tokens)


def _ours(tokens: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for token in [*tokens, ";"]:
        if token and set(token) <= set("|&;()<>"):
            if command and command[0] in ("singerlake", *_PLUGINS):
                yield command
            command = []
        elif command or not re.match(r"\w+=|[\d*/,-]+$|if$|then$|!$", token):
            command.append(token)


def refuse_unknown(command: list[str]) -> None:
    """Raise ``click.UsageError`` where there is no such command, or no such option of it."""
    program, *args = command
    if program in _PLUGINS:
        _parsed(_PLUGINS[program], args)
        return
    root = click.Context(cli, info_name=program)
    rest = _parsed(cli, args, root)
    if not rest or rest[0] in ("…", "COMMAND"):
        return
    if rest[0] not in COMMANDS:
        raise click.UsageError(f"no such command: {rest[0]}")
    subcommand = cli.get_command(root, rest[0])
    assert subcommand is not None
    rest = _parsed(subcommand, rest[1:], root)
    if isinstance(subcommand, click.Group):
        inner = [word for word in rest if word in subcommand.commands]
        if inner:
            at = rest.index(inner[0])
            _parsed(subcommand.commands[inner[0]], rest[at + 1 :], root)


def _parsed(
    command: click.Command, args: list[str], above: click.Context | None = None
) -> list[str]:
    context = click.Context(command, above, help_option_names=["-h", "--help"])
    _, rest, _ = command.make_parser(context).parse_args(list(args))
    return rest
