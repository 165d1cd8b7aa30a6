"""The README says what the code does."""

from __future__ import annotations

import re

from singerlake.errors import SingerlakeError
from singerlake_cli.main import COMMANDS, EXIT_CODES
from tests import readme_tables


def test_the_settings_tables_are_those_of_about() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    assert text == readme_tables.filled(text), "run: python -m tests.readme_tables"


def test_every_command_it_shows_exists() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:meltano invoke )?singerlake ([a-z]+)", text, re.M))
    shown |= set(re.findall(r"`singerlake ([a-z]+)", text))
    assert shown
    assert shown <= set(COMMANDS)


def test_every_document_it_links_is_there() -> None:
    text = readme_tables.README.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    for link in links:
        assert (readme_tables.README.parent / link).exists(), link


def test_the_exit_codes_are_those_of_the_errors() -> None:
    def codes(kind: type[SingerlakeError]) -> set[int]:
        below = [codes(sub) for sub in kind.__subclasses__() if sub.__module__ == kind.__module__]
        return {kind.exit_code}.union(*below)

    documented = {int(code) for code in re.findall(r"^ +(\d)  ", EXIT_CODES, re.M)}
    assert codes(SingerlakeError) | {0} == documented
