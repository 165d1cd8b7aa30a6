"""This repository's Meltano project in a folder of its own, and Meltano to run it with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from singerlake.format.names import TableName
from singerlake.lake import Lake
from tests.meltano.definitions import MELTANO, ROOT

if TYPE_CHECKING:
    from tests.orchestrators.programs import Programs

ORDERS = TableName("tap-shop", "orders")
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
        programs: Where ``singerlake`` is not the real one, what answers for it.
    """

    folder: Path
    program: Path
    programs: Programs | None = None

    def run(self, *args: str, within: str = ".") -> str:
        """Run a meltano command, in a folder of the project, and give what it prints on stdout."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MELTANO", "SINGERLAKE"))}
        environment = {
            **kept,
            "NO_COLOR": "1",
            "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
            # Java's class data would be made in the real home, beside all other tests.
            "SINGERLAKE_CACHE": "off",
        }
        command = [self.program, *args]
        if self.programs is not None:
            answered = self.programs.run(command, self.folder / within, environment)
            assert answered.code == 0, f"{' '.join(args)}\n{answered.out}\n{answered.err}"
            return answered.out
        done = subprocess.run(
            command,
            cwd=self.folder / within,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"meltano {' '.join(args)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def rows(folder: Path) -> list[tuple[str, int]]:
    """The operation and the records of each transaction of the project's table."""
    snapshot = Lake.open(str(folder / "lake")).table(ORDERS).snapshot()
    return [(t.operation, t.rows) for t in snapshot.transactions]


def page_commands() -> list[str]:
    """The commands of the page on pipelines, in order, without their comments."""
    text = (ROOT / "docs" / "guides" / "pipelines.md").read_text("utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if re.match(r"meltano (run|invoke|install|add)\b", line)]


def hub_commands(here: Path) -> list[str]:
    """The commands of docs/hub that add the plugins to a project, with the checkout's place."""
    text = (ROOT / "docs" / "hub" / "README.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("meltano add ")]
    return [line.replace("$HERE", str(here)) for line in lines]


def copied(folder: Path, program: Path, programs: Programs | None = None) -> Project:
    """The repository's project, as it is but for one thing.

    Singerlake's three plugins are the programs under test, which are installed, rather than
    three more environments.

    Args:
        folder: Where.
        program: The ``meltano`` to run.
        programs: What answers for ``singerlake``; the real one does unless this is given.
    """
    own = {} if programs is None else {"singerlake": programs.bin / "singerlake"}
    project = yaml.safe_load(MELTANO.read_text("utf-8"))
    for plugins in project["plugins"].values():
        for plugin in plugins:
            if plugin.get("pip_url", "").startswith("-e ."):
                del plugin["pip_url"]
                name = plugin["executable"]
                plugin["executable"] = str(own.get(name, BESIDE / name))
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "meltano.yml").write_text(yaml.safe_dump(project, sort_keys=False))
    return Project(folder, program, programs)
