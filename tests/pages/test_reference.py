"""The reference says what the code does."""

from __future__ import annotations

import re

from singerlake.errors import SingerlakeError
from singerlake_cli.main import EXIT_CODES
from tests import readme_tables
from tests.pages.steps import ROOT


def test_the_settings_tables_are_those_of_about() -> None:
    text = readme_tables.PAGE.read_text(encoding="utf-8")
    assert text == readme_tables.filled(text), "run: python -m tests.readme_tables"
    assert "| `tap_id` |" in text


def test_the_exit_codes_are_those_of_the_errors() -> None:
    def codes(kind: type[SingerlakeError]) -> set[int]:
        below = [codes(sub) for sub in kind.__subclasses__() if sub.__module__ == kind.__module__]
        return {kind.exit_code}.union(*below)

    documented = {int(code) for code in re.findall(r"^ +(\d)  ", EXIT_CODES, re.M)}
    assert codes(SingerlakeError) | {0} == documented
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    interrupted = 130
    assert {int(one) for one in re.findall(r"^\| (\d+) \|", page, re.M)} == {
        *documented,
        interrupted,
    }
