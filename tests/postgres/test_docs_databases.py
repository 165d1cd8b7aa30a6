"""docs/guides/databases.md speaks of the releases that are tested."""

from __future__ import annotations

from tests.meltano.project import ROOT


def test_it_names_the_releases_that_are_tested() -> None:
    text = (ROOT / "docs" / "guides" / "databases.md").read_text("utf-8")
    tested = (ROOT / "tests" / "postgres" / "environments.txt").read_text("utf-8").splitlines()
    assert tested
    for line in tested:
        _, requirement = line.split()
        assert requirement.replace("==", " ") in " ".join(text.split()), requirement
