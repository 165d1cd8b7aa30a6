"""The taps and the target of other people that the round trip goes through."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.meltano.project import ROOT

ENVIRONMENTS = ROOT / ".venv-postgres"
REGISTRY = "pypi.org"


class NoNetworkError(Exception):
    """The plugins are not installed yet, and cannot be: the registry is out of reach."""


def installed() -> Path:
    """The environments, one a plugin, installed from the registry by the Makefile at first use.

    Raises:
        NoNetworkError: The registry does not answer.
    """
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / "lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "--quiet", f"PYTHON={sys.executable}", ".venv-postgres/installed"],
            cwd=ROOT,
            check=False,
            timeout=600,
        )
    if done.returncode and not _network():
        raise NoNetworkError(
            f"{ENVIRONMENTS.name} is not installed, and {REGISTRY} is out of reach"
        )
    done.check_returncode()
    return ENVIRONMENTS


def _network() -> bool:
    try:
        socket.create_connection((REGISTRY, 443), timeout=10).close()
    except OSError:
        return False
    return True


def run(
    folder: Path,
    plugin: str,
    config: dict[str, Any],
    *arguments: str | Path,
    messages: bytes | None = None,
) -> bytes:
    """Run a plugin, and give what it puts out.

    Args:
        folder: Where its configuration is written.
        plugin: Its environment and its program: ``meltanolabs-tap/tap-postgres``.
        config: Its settings.
        arguments: What else it is started with.
        messages: Its input.
    """
    environment, program = plugin.split("/")
    settings = folder / f"{environment}-{program}.json"
    settings.write_text(json.dumps(config))
    done = subprocess.run(
        [ENVIRONMENTS / environment / "bin" / program, "--config", settings, *arguments],
        input=messages,
        stdin=subprocess.DEVNULL if messages is None else None,
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        timeout=120,
        check=False,
    )
    said = f"{plugin} ended with {done.returncode}\n{done.stderr.decode()[-8000:]}"
    assert done.returncode == 0, said
    return done.stdout


@dataclass(frozen=True)
class Tap:
    """One tap for PostgreSQL.

    Attributes:
        plugin: Environment and program.
        slot: The name of its replication slot in the database ``source``.
        config: Its settings, given the port.
        untrue: Columns of tables read by LOG_BASED where what it puts out is not what its own
            SCHEMA says. Both targets leave them out, by ``stream_maps``.
        loses: Columns in which what it puts out, or what target-postgres makes of it, is not
            what the source has.
        loses_from_log: Columns in which that is so of rows out of the write-ahead log only.
        refused: Tables of ``odd.sql`` that the lake refuses, and a part of what it says.
        tells_deletes: The methods by which a row that is gone from the source goes downstream.
    """

    plugin: str
    slot: str
    config: Callable[[int], dict[str, Any]]
    untrue: dict[str, list[str]] = field(default_factory=dict)
    loses: set[str] = field(default_factory=set)
    loses_from_log: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    tells_deletes: frozenset[str] = frozenset()

    @property
    def maps(self) -> dict[str, dict[str, None]]:
        """The setting ``stream_maps`` of a target."""
        return {f"by_log-{table}": dict.fromkeys(names) for table, names in self.untrue.items()}

    def sync(self, folder: Path, port: int, methods: dict[str, str], state: Any) -> bytes:
        """Discover, select, and read.

        Args:
            folder: Where its files are written.
            port: Of the cluster.
            methods: The streams, and the replication method of each.
            state: The bookmarks of the sync before.
        """
        config = self.config(port)
        catalog = json.loads(run(folder, self.plugin, config, "--discover"))
        catalog["streams"] = [s for s in catalog["streams"] if s["tap_stream_id"] in methods]
        assert {s["tap_stream_id"] for s in catalog["streams"]} == set(methods)
        for stream in catalog["streams"]:
            method = methods[stream["tap_stream_id"]]
            (whole,) = (m["metadata"] for m in stream["metadata"] if not m["breadcrumb"])
            whole |= {"selected": True, "replication-method": method}
            stream["replication_method"] = method
            if method == "INCREMENTAL":
                whole["replication-key"] = stream["replication_key"] = "changed"
        (folder / "catalog.json").write_text(json.dumps(catalog))
        arguments: list[str | Path] = ["--catalog", folder / "catalog.json"]
        if state is not None:
            (folder / "state.json").write_text(json.dumps(state))
            arguments += ["--state", folder / "state.json"]
        return run(folder, self.plugin, config, *arguments)


def _server(port: int) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": port, "user": "postgres", "password": "any"}


MELTANOLABS = Tap(
    plugin="meltanolabs-tap/tap-postgres",
    slot="tappostgres",
    config=lambda port: {
        **_server(port),
        "database": "source",
        "filter_schemas": ["whole", "by_key", "by_log", "odd"],
        # All tables by one connection, their rows first: else LOG_BASED begins with the slot.
        "log_based_single_connection": True,
        "auto_bootstrap_log_based": True,
        "replication_idle_exit_seconds": 1,
    },
    # PostgreSQL's text for these: {1,2} for an array, "k"=>"v" for an hstore.
    untrue={"every_type": ["pairs", "whole_list", "stamps_list", "exact_list"]},
    # A zone is dropped by the target, an interval is put out as a time after 1970.
    loses={"at_timetz", "span"},
    # Decimals come as the nearest double, JSON as its text.
    loses_from_log={"exact", "wide", "any_exact", "amount", "doc", "docb"},
    refused={
        "of_domain": 'field \'v\': 5 is not of types "null", "string"',
        "number_of_object": 'field \'v\': 4000000000 is not of types "null", "string"',
        "grid": "field 'v.0': [1,2] is not of type \"integer\"",
        "holes": "field 'v.1': null is not of type \"integer\"",
    },
    tells_deletes=frozenset({"LOG_BASED"}),
)
PIPELINEWISE = Tap(
    plugin="pipelinewise-tap/tap-postgres",
    slot="pipelinewise_source",
    config=lambda port: {
        **_server(port),
        "dbname": "source",
        "filter_schemas": "whole,by_key,by_log,odd",
        "logical_poll_total_seconds": 1,
    },
    # All digits of the nearest double, more than the six or eighteen that its SCHEMA allows.
    untrue={
        "every_type": ["exact", "wide", "any_exact"],
        "lines": ["amount"],
        "no_key": ["amount"],
    },
    # A date becomes a midnight, one bit a boolean, no array an empty one; a time loses its zone,
    # after it was converted to UTC; what the tap does not know is left out.
    loses={
        "day",
        "flag",
        "at_timetz",
        "exact_list",
        "stamps_list",
        "whole_list",
        "words_list",
        "bits",
        "home",
        "page",
        "place",
        "raw",
        "search",
        "span",
        "varbits",
        "within",
    },
    refused={
        "without_end": "non_finite",
        "scalars": 'field \'v\': 1 is not of types "null", "array", "object"',
        "tiny": "field 'v': 1e-50 is not a multiple of 1e-38",
    },
    tells_deletes=frozenset({"FULL_TABLE", "LOG_BASED"}),
)


def load(
    folder: Path, port: int, database: str, messages: bytes, maps: dict[str, Any] | None = None
) -> None:
    """Feed messages to meltanolabs-target-postgres; each stream's rows go into its own schema."""
    config = {
        **_server(port),
        "database": database,
        "default_target_schema": None,  # the schema that the stream names
        "add_record_metadata": True,  # ACTIVATE_VERSION needs it
        "hard_delete": True,
        "stream_maps": maps or {},
        "validate_records": False,  # it cannot validate by schemas of draft 4
    }
    run(folder, "meltanolabs-target/target-postgres", config, messages=messages)


if __name__ == "__main__":  # by the Makefile, beside the first tests
    from tests.postgres.cluster import missing

    if not missing():
        installed()
