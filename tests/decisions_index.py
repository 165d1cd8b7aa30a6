"""The list in docs/decisions/README.md, from the decisions themselves.

``python -m tests.decisions_index`` writes it.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
INDEX = FOLDER / "README.md"


def decisions() -> dict[str, Path]:
    """The decisions' files, by number."""
    return {path.name[:3]: path for path in sorted(FOLDER.glob("[0-9][0-9][0-9]-*.md"))}


def title(path: Path) -> str:
    """What a decision says in its heading, behind its number."""
    heading = path.read_text(encoding="utf-8").partition("\n")[0]
    match = re.fullmatch(r"# (\d{3}): (.+)", heading)
    assert match, f"{path.name} begins with {heading!r}, not with '# {path.name[:3]}: …'"
    assert match[1] == path.name[:3], f"{path.name} calls itself {match[1]}"
    return match[2]


def filled(text: str) -> str:
    """The index with its list as it should be."""
    there = decisions()
    lines = []
    for number in (f"{one:03d}" for one in range(1, int(max(there)) + 1)):
        page = there.get(number)
        linked = f"[{title(page)}]({page.name})" if page else "never used"
        lines.append(f"| {number} | {linked} |")
    table = "\n".join(["| number | decision |", "| --- | --- |", *lines])
    pattern = r"(<!-- decisions -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text, flags=re.S)


if __name__ == "__main__":
    INDEX.write_text(filled(INDEX.read_text(encoding="utf-8")), encoding="utf-8")
