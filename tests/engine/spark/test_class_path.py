"""Which of Spark's jars Java is given, and in which form."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from singerlake.engine.spark.jvm import (
    class_data,
    class_path,
    java,
    launch,
    session,
    unsigned,
)

SPARK = ("spark-catalyst", "spark-core", "spark-sql", "parquet-hadoop", "arrow-vector")
ELSEWHERE = (
    "org/apache/spark/deploy/",  # masters that keep what they know in ZooKeeper
    "org/apache/spark/status/api/",  # the web interface's answers to programs
    "org/apache/spark/ui/UIUtils$",
)
"""Classes of Spark that no session on one machine asks for, and that refer to jars left out."""


def classes(jar: str) -> Iterator[str]:
    with zipfile.ZipFile(jar) as content:
        for name in content.namelist():
            if name.endswith(".class") and not name.startswith("META-INF/"):
                yield name.removesuffix(".class")


def referred(data: bytes) -> Iterator[str]:
    """The classes that a class names: the constants with tag 7, which point to a text."""
    (count,) = struct.unpack_from(">H", data, 8)
    place, index, texts, names = 10, 1, {}, []
    sizes = {**dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5), 5: 9, 6: 9, 15: 4}
    while index < count:
        tag = data[place]
        (number,) = struct.unpack_from(">H", data, place + 1)
        if tag == 1:
            texts[index] = data[place + 3 : place + 3 + number]
            place += number
        elif tag == 7:
            names.append(number)
        index += 2 if tag in (5, 6) else 1
        place += sizes.get(tag, 3)
    for name in names:
        yield texts[name].decode("utf-8", "replace").lstrip("[").removeprefix("L").rstrip(";")


def test_every_jar_is_there_once() -> None:
    needed, others = class_path.needed(), class_path.others()
    jars = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    assert sorted([*needed, *others]) == sorted(map(str, jars))
    assert needed == sorted(needed)
    assert {Path(jar).name.partition("_")[0] for jar in others} > {"spark-mllib", "spark-hive"}
    assert len(others) > 80


def test_nothing_that_is_left_out_is_referred_to() -> None:
    left_out = {name for jar in class_path.others() for name in classes(jar)}
    left_out.difference_update(name for jar in class_path.needed() for name in classes(jar))
    looked_at = 0
    for jar in class_path.needed():
        if not Path(jar).name.startswith(SPARK):
            continue
        with zipfile.ZipFile(jar) as content:
            for name in classes(jar):
                if not name.startswith(ELSEWHERE):
                    missed = left_out.intersection(referred(content.read(f"{name}.class")))
                    assert not missed, (name, missed)
                    looked_at += 1
    assert looked_at > 10_000


def test_nothing_that_is_left_out_starts_with_a_session() -> None:
    """MLlib's part does, and reads Scala's own types for it: a fifth of what a query took."""
    extensions = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
    bring = [
        Path(jar).name.partition("_")[0]
        for jar in [*class_path.needed(), *class_path.others()]
        if zipfile.Path(jar, extensions).exists()
    ]
    assert bring == ["spark-mllib"], "look at what these do: they start with every session"


@pytest.mark.parametrize("conf", [{}, {"spark.jars.packages": "a:b:1"}])
def test_a_users_settings_may_ask_for_all_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conf: dict[str, str]
) -> None:
    begun: list[bool] = []

    class Starting:
        def end(self) -> None:
            pass

    def begin(*_: object, whole: bool) -> Starting:
        begun.append(whole)
        return Starting()

    monkeypatch.setattr(launch, "_ahead", [])
    monkeypatch.setattr(launch, "_runs_already", lambda: False)
    monkeypatch.setattr(launch, "scratch_folder", lambda: tmp_path)
    monkeypatch.setattr(java, "find", lambda _: java.Java(tmp_path, 17, "PATH"))
    monkeypatch.setattr(java, "begin", begin)
    launch.ahead("local[1]", conf)
    launch.Launch(("local[1]", {}), tmp_path, {}).begin(java.Java(tmp_path, 17, "PATH"))
    assert begun == [bool(conf), True], "a program's session may be asked for anything as well"


def test_signatures_are_taken_off(tmp_path: Path) -> None:
    digests = "Name: a/B.class\r\nSHA-256-Digest: AAAA\r\n\r\n"
    members = {
        "META-INF/MANIFEST.MF": f"Manifest-Version: 1.0\r\nA: b\r\n\r\n{digests}",
        "META-INF/SIGNER.SF": "Signature-Version: 1.0",
        "META-INF/SIGNER.DSA": "-",
        "META-INF/services/x": "y",
        "a/B.class": "class",
    }
    signed, plain = tmp_path / "signed.jar", tmp_path / "plain.jar"
    for jar, names in ((signed, list(members)), (plain, ["a/B.class"])):
        with zipfile.ZipFile(jar, "w") as content:
            for name in names:
                content.writestr(name, members[name])
    to = tmp_path / "to"
    to.mkdir()
    assert unsigned.copies([str(plain), str(signed)], to) == [str(to / "signed.jar")]
    with zipfile.ZipFile(to / "signed.jar") as copy:
        found = {name: copy.read(name).decode() for name in copy.namelist()}
    assert found == {
        "META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nA: b\r\n\r\n",
        "META-INF/services/x": "y",
        "a/B.class": "class",
    }
    assert (to / "signed.jar").stat().st_mtime_ns == signed.stat().st_mtime_ns
    assert (to / "signed.jar").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in to.iterdir()] == ["signed.jar"]


def test_executors_and_training_get_the_whole_package(tmp_path: Path) -> None:
    packed = session._packed(tmp_path)
    assert packed.name == "singerlake.zip"
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
    assert {"singerlake/__init__.py", "singerlake/engine/spark/jvm/session.py"} <= {*names}
    (first, *_) = class_data._import_path()
    assert Path(first, "singerlake", "__init__.py").is_file()
