"""Spark Connect: a client without a JVM, and Singerlake on the server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from singerlake.engine.spark.jvm import java
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.sql.queries import reading
from tests.build import commit_rows
from tests.histories import here

PROPERTIES = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
CLIENT = """
import sys, time
from pyspark.sql import SparkSession
from singerlake.spark import read_table
where, lake, folder = sys.argv[1:]
for attempt in range(60):
    try:
        spark = SparkSession.builder.remote(where).getOrCreate()
        spark.range(1).count()
        break
    except Exception:
        if attempt == 59:
            raise
        time.sleep(1)
def again(do):  # TOO_BUSY in tests/sql/test_stream.py says why
    for attempt in range(5):
        try:
            return do()
        except Exception as error:
            if attempt == 4 or "worker to connect back" not in str(error):
                raise
source = spark.read.format("singerlake").option("lake", lake)
found = again(lambda: source.load("tap.s").where("id > 1").collect())
print("source", sorted(row.id for row in found))
print("table", sorted(row.id for row in read_table("tap.s", lake=lake, spark=spark).collect()))
print("version", read_table("tap.s.1", lake=lake, spark=spark).count())
changes = spark.readStream.format("singerlake").option("lake", lake).option("change_feed", "true")
sink = (
    changes.load("tap.s").writeStream.format("parquet").option("path", folder + "/sink")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
)
again(lambda: sink.start().awaitTermination())
print("stream", spark.read.parquet(folder + "/sink").count())
spark.stop()
"""


def fill(lake: Lake) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 1}, {"id": 2}])
    here.freeze(lake.table("tap.s"))
    commit_rows(
        lake, "tap.s", PROPERTIES, ["id"], [{"id": 3}, {"id": 1, "_sdc_deleted_at": "2026-01-02"}]
    )


@pytest.mark.usefixtures("processes", "services", "long_runs")
@pytest.mark.parametrize("server", ["local[1]", "sbin"])
def test_source_stream_and_read_table_over_spark_connect(
    lake: Lake, tmp_path: Path, server: str
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio and grpcio-status")
    pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio-status")
    fill(lake)
    home = Path(pyspark.__file__).parent
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java.find().path.parents[1]),
    }
    running = None
    where = server
    if server == "sbin":
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        where = f"sc://localhost:{port}"
        started = [home / "sbin/start-connect-server.sh", "--master", "local[1]"]
        running = subprocess.Popen(
            [*map(str, started), "--conf", f"spark.connect.grpc.binding.port={port}"],
            env={**environment, "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"},
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, where, lake.store.uri, str(tmp_path / "out")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
    finally:
        if running is not None:
            os.killpg(running.pid, signal.SIGKILL)  # the script, and Java, which outlives it
            running.wait(60)
    said = [line for line in done.stdout.splitlines() if line]
    wanted = ["source [2, 3]", "table [2, 3]", "version 2", "stream 4"]
    assert said == wanted, done.stderr[:3000] + done.stderr[-3000:]


@pytest.mark.parametrize(
    "option", [{"row_metadata": True}, {"files": "binary"}, {"misfits": "text"}]
)
def test_what_only_a_session_with_java_gives_is_refused(lake: Lake, option: dict[str, str]) -> None:
    fill(lake)
    with pytest.raises(UsageError, match="or in a session that is not remote"):
        reading.read_state(lake.table("tap.s"), None, spark=object(), **option)  # type: ignore[arg-type]
