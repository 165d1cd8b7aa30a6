"""Class data: made once, used after, and never in the way."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from singerlake import lineage
from singerlake.engine.spark.jvm import class_data, class_path, java, session
from singerlake.engine.spark.jvm.class_data import Archive
from singerlake.lake import Lake
from singerlake.ops import training

pytestmark = pytest.mark.usefixtures("processes")

CLASSES = """java/lang/Object id: 0
java/lang/String id: 1
org/apache/spark/deploy/SparkSubmit
org/codehaus/janino/Token
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, on a machine that is kept."""
    monkeypatch.setenv(class_data.SETTING, str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "cache" / "java"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The processes that would have been started."""
    processes: list[dict[str, Any]] = []

    def note(args: list[str], **more: Any) -> Any:
        processes.append({"args": args, **more})
        return SimpleNamespace(returncode=None)

    monkeypatch.setattr(class_data.subprocess, "Popen", note)
    return processes


def home(folder: Path) -> Path:
    """Something like a Java, and its program's path."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "lib" / "modules").write_bytes(b"modules")
    return folder / "bin" / "java"


def place_of(program: Path, *jars: Path) -> Archive:
    place = class_data.archive_for(program, [str(jar) for jar in jars])
    assert place is not None
    return place


def put(place: Archive, data: bytes = b"x") -> None:
    place.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.path.write_bytes(data)
    place.path.chmod(0o600)
    place.jars.mkdir(mode=0o700, exist_ok=True)
    class_data.note_jars(place, [])


def test_the_name_says_what_it_depends_on(tmp_path: Path, cache: Path) -> None:
    one, two = home(tmp_path / "one"), home(tmp_path / "two")
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    first = place_of(one, jar)
    assert first.path.parent == cache
    assert place_of(one, jar) == first
    others = {place_of(two, jar).path, place_of(one).path}
    jar.write_bytes(b"12")
    others.add(place_of(one, jar).path)
    (tmp_path / "one/lib/modules").write_bytes(b"upgraded")
    others.add(place_of(one, jar).path)
    assert len(others - {first.path}) == 4


@pytest.mark.parametrize("off", ["off", "OFF", ""])
def test_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv(class_data.SETTING, off)
    assert class_data.archive_for(home(tmp_path), []) is None


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = home(tmp_path / "j")
    monkeypatch.delenv(class_data.SETTING)
    monkeypatch.setenv("HOME", str(tmp_path))
    for base in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert place_of(program).path.parent == tmp_path / ".cache/singerlake/java"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert place_of(program).path.parent == tmp_path / "xdg/singerlake/java"


def test_what_others_may_write_is_not_run(tmp_path: Path, cache: Path) -> None:
    place = place_of(home(tmp_path))
    assert class_data.options(place) == []
    put(place)
    assert f"-XX:SharedArchiveFile={place.path}" in class_data.options(place)
    for path, mode in ((place.path, 0o620), (place.path, 0o602), (cache, 0o777)):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        assert class_data.options(place) == []
        path.chmod(before)
    assert place.size() == 1


def test_no_warning_tells_of_a_training_that_goes_on(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = subprocess.Popen, []

    def sleep(_args: list[str], **more: Any) -> subprocess.Popen[bytes]:
        process = begin([sys.executable, "-c", "import time; time.sleep(60)"], **more)
        begun.append(process.pid)
        return process

    monkeypatch.setattr(class_data.subprocess, "Popen", sleep)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        class_data.train_later(place_of(home(tmp_path)))
        gc.collect()
    [pid] = begun
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []


def test_one_training_at_a_time_that_outlives_the_command(
    tmp_path: Path, cache: Path, started: list[dict[str, Any]]
) -> None:
    one, two = place_of(home(tmp_path / "1")), place_of(home(tmp_path / "2"))
    for place in (one, one, two):
        class_data.train_later(place)
    assert len(started) == 1
    assert started[0]["args"] == [
        sys.executable,
        "-m",
        "singerlake.ops.training",
        class_data.TURN_TAKEN,
    ]
    assert started[0]["start_new_session"]
    for stream in ("stdin", "stdout", "stderr"):
        assert started[0][stream] == subprocess.DEVNULL
    assert class_data.is_training(two)
    long_ago = time.time() - class_data.RETRY_SECONDS - 1
    os.utime(cache / "training", (long_ago, long_ago))  # it was killed
    assert not class_data.is_training(one)
    class_data.train_later(two)
    assert len(started) == 2
    class_data.end_turn(two)
    class_data.train_later(one)
    assert len(started) == 3


def test_no_training_in_vain(
    tmp_path: Path,
    cache: Path,
    started: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = place_of(home(tmp_path))
    with monkeypatch.context() as patched:
        patched.setenv("CI", "true")
        class_data.train_later(place)
    with monkeypatch.context() as patched:
        full = shutil.disk_usage(tmp_path)._replace(free=class_data.NEEDED - 1)
        patched.setattr(class_data.shutil, "disk_usage", lambda _: full)
        class_data.train_later(place)
    put(place)
    class_data.train_later(place)
    class_data.discard(place)
    place.refused.touch()
    class_data.train_later(place)
    place.refused.unlink()
    place.path.parent.chmod(0o770)  # what is made here would never be trusted
    class_data.train_later(place)
    place.path.parent.chmod(0o700)
    assert started == []
    place.refused.touch()
    long_ago = time.time() - class_data.REFUSED_SECONDS - 1
    os.utime(place.refused, (long_ago, long_ago))
    class_data.train_later(place)
    assert len(started) == 1
    assert started[0]["cwd"] == "/"


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, cache: Path, started: list[dict[str, Any]]
) -> None:
    cache.parent.write_text("a file where a folder should be")
    place = place_of(home(tmp_path))
    class_data.train_later(place)
    class_data.discard(place)
    assert class_data.options(place) == []
    assert started == []


def test_the_last_used_stay(tmp_path: Path, cache: Path) -> None:
    places = [place_of(home(tmp_path / str(number))) for number in range(5)]
    for age, place in enumerate(places):
        put(place)
        os.utime(place.path, (1000 - age, 1000 - age))
    class_data.options(places[4])  # is used now
    class_data.end_turn(places[0])
    assert [place.size() for place in places] == [1, 1, None, None, 1]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache's folder after a training on three classes, on this machine's Java."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(class_data.SETTING, str(folder))
        patch.setattr(training, "note_classes", lambda _, to, __: to.write_text(CLASSES))
        patch.setattr(training.os, "nice", lambda _: 0)
        (folder / "java" / "new-killed").mkdir(parents=True)
        (folder / "java").chmod(0o700)
        (folder / "java" / "training").touch()
        assert training.main() == 1  # another makes one
        assert training.main([class_data.TURN_TAKEN]) == 0
    yield folder / "java"


def begin(cache: Path, log: Path) -> tuple[java.Starting, str]:
    """Start the JVM, with its words on where each class came from; it is ended again."""
    conf = {"spark.driver.memory": "200m", "spark.driver.extraJavaOptions": "-Xlog:class+load"}
    starting = java.begin(java.find(), conf, log)
    try:
        assert starting.gateway().port > 0
    finally:
        starting.end()
    return starting, log.read_text()


def copied(small: Path, cache: Path) -> Path:
    """A copy of the small archive that may be spoilt."""
    cache.mkdir(mode=0o700, parents=True)
    (archive,) = small.glob("*.jsa")
    copy = cache / archive.name
    shutil.copy(archive, copy)
    copy.chmod(0o600)
    shutil.copytree(archive.with_suffix(".jars"), copy.with_suffix(".jars"))
    return copy


def test_what_is_made_is_used(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(class_data.SETTING, str(small.parent))
    jars, archive = sorted(small.iterdir())  # no turn, nothing half done
    assert (jars.suffix, archive.suffix) == (".jars", ".jsa")
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    starting, said = begin(small, tmp_path / "log")
    assert starting.shared
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file" in said
    signed = [Path(jar).name for jar in class_path.needed() if is_signed(jar)]
    assert signed == sorted(path.name for path in jars.glob("*.jar"))
    assert b"org/codehaus/janino/Token" in archive.read_bytes(), "Java keeps none of a signed jar"


def is_signed(jar: str) -> bool:
    with zipfile.ZipFile(jar) as content:
        return any(name.endswith((".SF", ".sf")) for name in content.namelist())


def test_jars_that_others_may_write_are_not_run(tmp_path: Path, cache: Path) -> None:
    place = place_of(home(tmp_path))
    assert class_data.jars(place) == []
    place.jars.mkdir(mode=0o700, parents=True)
    for name in ("b.jar", "a.jar"):
        (place.jars / name).touch(0o600)
    whole = [str(place.jars / name) for name in ("a.jar", "b.jar")]
    assert class_data.jars(place) == []  # nobody has said that they are whole
    class_data.note_jars(place, whole)
    assert class_data.jars(place) == whole
    for path, mode in ((place.jars, 0o770), (place.jars / "a.jar", 0o606)):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        assert class_data.jars(place) == []
        path.chmod(before)
    class_data.discard(place)
    assert not place.jars.exists()


@pytest.mark.parametrize("spoilt", ["gone", "damaged", "one of them"])
def test_an_archive_without_its_jars_is_made_anew(tmp_path: Path, cache: Path, spoilt: str) -> None:
    """Java would run what a damaged jar says, and refuse the archive for ever without them."""
    place = place_of(home(tmp_path))
    place.jars.mkdir(mode=0o700, parents=True)
    made = [place.jars / "a.jar", place.jars / "b.jar"]
    for jar in made:
        jar.write_bytes(b"x" * 100)
        jar.chmod(0o600)
    class_data.note_jars(place, map(str, made))
    place.path.write_bytes(b"classes")
    place.path.chmod(0o600)
    (place.jars / "left.new").write_bytes(b"by a training that was killed")
    assert (place.size(), class_data.jars(place)) == (7, [*map(str, made)])
    if spoilt == "gone":
        shutil.rmtree(place.jars)
    elif spoilt == "damaged":
        seen = made[0].stat()
        made[0].write_bytes(b"x" * 50 + b"y" + b"x" * 49)
        os.utime(made[0], ns=(seen.st_atime_ns, seen.st_mtime_ns))
    else:
        made[1].unlink()
    assert place.size() is None  # so that the next job has it made
    assert class_data.options(place) == class_data.jars(place) == []


@pytest.mark.parametrize(
    "spoilt",
    [
        "flipped",  # which Java finds only by the checksums that it is told to look at
        pytest.param("cut", marks=pytest.mark.variant),
        pytest.param("junk", marks=pytest.mark.variant),
    ],
)
def test_a_damaged_archive_is_as_none(
    small: Path, cache: Path, tmp_path: Path, spoilt: str
) -> None:
    copy = copied(small, cache)
    data = bytearray(copy.read_bytes())
    if spoilt == "cut":
        data = data[: len(data) // 2]
    elif spoilt == "flipped":
        for place in range(8192, len(data), 100_000):
            data[place] ^= 0xFF
    else:
        data = bytearray(b"junk" * 5000)
    copy.write_bytes(data)
    starting, said = begin(cache, tmp_path / "log")
    assert starting.shared
    assert "org.apache.spark.deploy.SparkSubmit source: file:" in said


def test_a_java_that_falls_over_its_archive_goes_on_without(cache: Path, tmp_path: Path) -> None:
    real = java.find()
    fake = home(tmp_path / "fake")
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *SharedArchiveFile*) exit 134;; esac\nexec {real.path} "$@"\n'
    )
    fake.chmod(0o755)
    place = place_of(fake, *map(Path, class_path.needed()))
    put(place)
    starting = java.begin(java.Java(fake, 21, "test"), {}, tmp_path / "log")
    assert starting.shared
    gateway = starting.gateway()
    gateway.process.kill()
    gateway.process.wait()
    assert not place.path.exists()


def test_a_java_that_can_make_none_is_not_asked_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home(tmp_path / "fake")
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "find", lambda: java.Java(program, 17, "test"))
    monkeypatch.setattr(training, "note_classes", lambda _, to, __: to.write_text(CLASSES))
    monkeypatch.setattr(training.os, "nice", lambda _: 0)
    assert training.main() == 1
    (left,) = cache.iterdir()
    assert left == place_of(program, *map(Path, class_path.needed())).refused


def test_no_catalog_is_told_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openlineage.client")
    monkeypatch.setenv(class_data.SETTING, "off")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "false")
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    assert lineage.is_configured()
    told = []
    monkeypatch.setattr(session, "session", lambda *_: MagicMock())
    monkeypatch.setattr(training, "jobs", lambda *_: told.append(lineage.is_configured()))
    training.note_classes(tmp_path, tmp_path / "classes", [])
    assert told == [False]


def test_the_jobs_that_java_is_trained_on(spark: SparkSession, tmp_path: Path) -> None:
    training.jobs(spark, tmp_path)
    history = Lake.open(str(tmp_path / "lake")).table(training._TABLE).snapshot()
    assert history.number == 5
    assert history.version("before").transaction == 1
