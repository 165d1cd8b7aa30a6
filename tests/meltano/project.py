"""This repository's Meltano project in a folder of its own, and Meltano to run it with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.meltano.definitions import MELTANO, ROOT

ENVIRONMENT = ROOT / ".venv-meltano"
BESIDE = Path(sys.executable).parent


def installed() -> Path:
    """The ``meltano`` program, installed from the registry by the Makefile at first use."""
    subprocess.run(
        ["make", "--quiet", f"PYTHON={sys.executable}", ".venv-meltano/installed"],
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    return ENVIRONMENT / "bin" / "meltano"


@dataclass(frozen=True)
class Project:
    """A Meltano project.

    Attributes:
        folder: Its root.
        program: The ``meltano`` to run.
    """

    folder: Path
    program: Path

    def run(self, *args: str, within: str = ".") -> str:
        """Run a meltano command, in a folder of the project, and give what it prints on stdout."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MELTANO", "SINGERLAKE"))}
        done = subprocess.run(
            [self.program, *args],
            cwd=self.folder / within,
            env={
                **kept,
                "NO_COLOR": "1",
                "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
                # Java's class data would be made in the real home, beside all other tests.
                "SINGERLAKE_CACHE": "off",
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"meltano {' '.join(args)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def page_commands() -> list[str]:
    """The commands of the page on pipelines, in order, without their comments."""
    text = (ROOT / "docs" / "how-to" / "pipelines.md").read_text("utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if re.match(r"meltano (run|invoke|install|add)\b", line)]


def hub_commands(here: Path) -> list[str]:
    """The commands of docs/hub that add the plugins to a project, with the checkout's place."""
    text = (ROOT / "docs" / "hub" / "README.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("meltano add ")]
    return [line.replace("$HERE", str(here)) for line in lines]


def copied(folder: Path, program: Path) -> Project:
    """The repository's project, as it is but for one thing.

    Singerlake's three plugins are the programs under test, which are installed, rather than
    three more environments.
    """
    project = yaml.safe_load(MELTANO.read_text("utf-8"))
    for plugins in project["plugins"].values():
        for plugin in plugins:
            if plugin.get("pip_url", "").startswith("-e ."):
                del plugin["pip_url"]
                plugin["executable"] = str(BESIDE / plugin["executable"])
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "meltano.yml").write_text(yaml.safe_dump(project, sort_keys=False))
    return Project(folder, program)
