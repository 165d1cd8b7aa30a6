"""A master that cannot be reached is known before Java starts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from singerlake.engine.spark.jvm import java
from singerlake.engine.spark.jvm import launch as masters
from singerlake.engine.spark.jvm.launch import check_master
from singerlake.errors import RuntimeMissingError, UsageError
from singerlake.lake import Lake
from singerlake_cli.main import cli
from tests.build import commit_rows


@pytest.fixture
def open_port(services: None) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port(services: None) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    "master",
    ["", "local", "local[*]", "local[2]", "local[2, 3]", "local-cluster[1,1,1024]", "yarn"],
)
def test_what_needs_no_address(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master",
    [
        "nonsense",
        "locl[2]",
        "spark://",
        "spark://host",
        "spark://h:x",
        "k8s://",
        "sc://h:1",
        "spark://a..b:7077",
    ],
)
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(UsageError, match=r"write local\[4\], spark://host:7077"):
        check_master(master)


def test_something_that_listens(open_port: int, closed_port: int) -> None:
    check_master(f"spark://127.0.0.1:{open_port}")
    check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{open_port}")
    check_master(f"k8s://https://127.0.0.1:{open_port}")
    check_master(f"k8s://127.0.0.1:{open_port}")


def test_nothing_that_listens(closed_port: int) -> None:
    for master in (f"spark://127.0.0.1:{closed_port}", f"k8s://http://127.0.0.1:{closed_port}"):
        with pytest.raises(RuntimeMissingError, match="Connection refused"):
            check_master(master)
    with pytest.raises(RuntimeMissingError, match="no Spark master answers at"):
        check_master("spark://no-such-host.invalid:7077")


@pytest.mark.usefixtures("services")
def test_many_silent_addresses_take_no_longer_than_one_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    def silent(_: tuple[str, int], timeout: float) -> socket.socket:
        waited.append(timeout)
        raise TimeoutError("timed out")

    def four(_host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (f"192.0.2.{n}", port)) for n in range(4)]

    monkeypatch.setattr(masters.socket, "create_connection", silent)
    monkeypatch.setattr(masters.socket, "getaddrinfo", four)
    with pytest.raises(RuntimeMissingError, match="timed out"):
        check_master("spark://" + ",".join(f"h{n}:1" for n in range(9)))
    assert len(waited) == 36
    assert sum(waited) <= masters.TOTAL_SECONDS + 0.001


@pytest.mark.parametrize("args", [["query", "select 1"], ["freeze", "tap.s"], ["verify", "tap.s"]])
def test_commands_say_so_in_one_line(
    lake: Lake, closed_port: int, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    for _ in range(2):
        commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])

    def no_java(*_: object) -> None:
        raise AssertionError("Java is started in vain")

    monkeypatch.setattr(java, "begin", no_java)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    began = time.monotonic()
    master = f"spark://127.0.0.1:{closed_port}"
    command = ["--lake", lake.store.uri, *args, "--master", master]
    result = CliRunner().invoke(cli, command)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1), result.stderr
    assert f"no Spark master answers at {master}" in result.stderr
    assert time.monotonic() - began < 20
