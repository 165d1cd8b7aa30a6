"""Meltano's state in a lake: the command `singerlake bookmark` reads and writes it."""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meltano.core.error import MeltanoError
from meltano.core.project import Project
from meltano.core.setting_definition import SettingDefinition
from meltano.core.state_store.base import MeltanoState, StateStoreManager

__all__ = ["COMMAND", "SingerlakeError", "SingerlakeStateStoreManager"]

logger = logging.getLogger(__name__)
COMMAND = SettingDefinition(
    name="state_backend.singerlake.command",
    label="The command singerlake",
    description="The path of the command. Default: the one of the utility singerlake if the "
    "project has it, otherwise the one on the PATH.",
    env_specific=True,
)
_SCHEME = "singerlake:"
_UTILITY = Path("utilities", "singerlake", "venv", "bin", "singerlake")
_seen: dict[tuple[str, str], Any] = {}
"""The tables' transactions when this process read a bookmark to start its tap with, by lake and id.
They go with what the run writes, so that a revert in between turns that back, too. Meltano reads
and writes by two objects of the class below, so it is kept here."""


class SingerlakeError(MeltanoError):
    """The command singerlake failed, or cannot be started."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class SingerlakeStateStoreManager(StateStoreManager):
    """Meltano's state in a lake.

    Args:
        uri: ``singerlake:`` and the lake: a folder, relative to the project, or a bucket.
        command: The path of the command ``singerlake``.
        kwargs: Meltano's settings of all state backends, which do not apply: locks expire as all
            locks of a lake do.
    """

    label: str = "Singerlake"

    def __init__(self, uri: str, command: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._lake = uri.removeprefix(_SCHEME)
        if not self._lake or self._lake.startswith("//"):
            raise SingerlakeError(
                f"the state backend {uri!r} names no lake: write singerlake:lake for a folder, or "
                "singerlake:s3://bucket/prefix"
            )
        project = Project.find()
        self._environment = {
            **project.dotenv_env,  # as the plugins get it: keys of the store may be there
            **os.environ,
            "MELTANO_PROJECT_ROOT": str(project.root),
        }
        utility = Path(project.sys_dir_root, _UTILITY)
        self._command = command or (str(utility) if utility.exists() else "singerlake")
        self._locked: dict[str, Any] = {}  # what was seen by whoever reads under the lock

    def set(self, state: MeltanoState) -> None:
        """Write a state."""
        key = (self._lake, state.state_id)
        seen = _seen.get(key, self._locked.get(state.state_id))
        document = {**state.to_dict(), "seen": seen}
        done = self._call("set", state.state_id, given=json.dumps(document))
        _seen.setdefault(key, done["seen"])

    def get(self, state_id: str) -> MeltanoState | None:
        """Read a state, which is never ahead of the lake's tables."""
        found = self._call("get", state_id)
        if state_id in self._locked:  # a run is about to merge what it emitted
            self._locked[state_id] = found["seen"]
        else:
            _seen[self._lake, state_id] = found["seen"]
        for one in found["turned_back"]:
            logger.warning(
                "The state %s is that of an earlier run, because %s was turned back to "
                "transaction %s. The tap sends what came since again.",
                state_id,
                one["table"],
                one["transaction"],
            )
        if found["state"] is None:
            return None
        return MeltanoState(
            state_id,
            partial_state=found["state"]["partial"] or {},
            completed_state=found["state"]["completed"] or {},
        )

    def delete(self, state_id: str) -> None:
        """Delete a state."""
        self._call("delete", state_id)

    def get_state_ids(self, pattern: str | None = None) -> list[str]:
        """List the ids of states, of those that match a pattern if there is one."""
        ids: list[str] = self._call("ls")
        return ids if pattern is None else fnmatch.filter(ids, pattern)

    @contextmanager
    def acquire_lock(self, state_id: str, *, retry_seconds: float) -> Iterator[None]:
        """Hold the lock of a state; it is released even if this process is killed."""
        del retry_seconds  # the command waits
        process = self._start("lock", state_id)
        try:
            assert process.stdout is not None, "it was asked for"  # noqa: S101
            if not process.stdout.readline():  # it prints once it has the lock
                _, errors = process.communicate()
                raise SingerlakeError(_message(errors))
            self._locked[state_id] = None
            yield
        finally:
            self._locked.pop(state_id, None)
            process.communicate()  # ends its standard input, and so the lock

    def _call(self, *args: str, given: str = "") -> Any:
        process = self._start(*args)
        printed, errors = process.communicate(given)
        if process.returncode:
            raise SingerlakeError(_message(errors))
        return json.loads(printed)

    def _start(self, *args: str) -> subprocess.Popen[str]:
        command = shutil.which(self._command, path=self._environment.get("PATH"))
        if command is None:
            raise SingerlakeError(
                f"there is no command {self._command}: install Singerlake with meltano add, or set "
                f"{COMMAND.name} to the path of the command"
            )
        # The id comes after --, because it may begin with a dash.
        subcommand, *ids = args
        return subprocess.Popen(
            [command, "--lake", self._lake, "--output", "json", "bookmark", subcommand, "--", *ids],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )


def _message(errors: str) -> str:
    """Return the error that the command printed, one JSON document a line."""
    for line in reversed(errors.splitlines()):
        try:
            return str(json.loads(line)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            continue
    return errors.strip() or "the command singerlake failed without a word"
