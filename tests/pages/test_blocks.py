"""What can be said of every block of every page, also of those that are not run.

Pages for users are run from top to bottom (test_run.py); those of the format, of projections, of
other tools and of Meltano have tests of their own. A block that nothing can run here, because it
needs a cluster or somebody's account, must at least be what it says it is.
"""

from __future__ import annotations

import importlib.util
import json
import re

import click
import pytest
import yaml

from tap_singerlake.tap import TapSingerlake
from target_singerlake.target import TargetSingerlake
from tests.pages.blocks import Block, blocks, commands, refuse_unknown
from tests.pages.steps import ROOT

BLOCKS = blocks()
SHELL = {"sh", "console", "crontab", ""}
TEXT = {"text", "sql", "dockerfile", ""}


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def test_every_block_says_what_it_is() -> None:
    known = {"python", "json", "yaml", "toml", *SHELL, *TEXT}
    assert [str(block) for block in BLOCKS if block.language not in known] == []
    assert len(BLOCKS) > 100


def test_every_command_and_option_is_there() -> None:
    found = 0
    for block in of(*SHELL):
        for command in commands(block.text):
            found += 1
            try:
                refuse_unknown(command)
            except click.UsageError as error:
                pytest.fail(f"{block}: {' '.join(command)}: {error.format_message()}")
    assert found > 100


@pytest.mark.parametrize("wrong", ["singerlake frieze a.b", "singerlake freeze a.b --lable x"])
def test_a_command_that_is_not_there_is_found_out(wrong: str) -> None:
    (command,) = commands(f"$ A=b {wrong} | tee out")
    with pytest.raises(click.UsageError):
        refuse_unknown(command)


def test_commands_in_text_are_there() -> None:
    known = re.compile(r"`(singerlake [a-z][a-z-]*(?: [^`…\n]*)?)`")
    for block in {block.page: block for block in BLOCKS}.values():
        if "decisions" in block.page.parts:
            continue  # they may speak of what was rejected
        for text in known.findall(block.page.read_text(encoding="utf-8")):
            for command in commands(text):
                refuse_unknown(command)


def test_every_piece_of_python_is_python() -> None:
    for block in of("python"):
        compile(block.text, str(block), "exec")


def test_every_piece_of_json_and_yaml_is_such() -> None:
    for block in of("json"):
        assert json.loads(block.text) is not None, str(block)
    for block in of("yaml"):
        assert all(yaml.safe_load_all(block.text)), str(block)


def test_what_is_shown_as_settings_are_settings() -> None:
    plugins = (TapSingerlake, TargetSingerlake)
    known = {name for one in plugins for name in one._get_about_info().settings["properties"]}
    texts = [block.text for block in of("json") if block.page.name != "format.md"]
    for block in of("sh", "console"):
        texts += re.findall(r"echo '(\{.*?\})' >", block.text)
    values = [value for value in map(json.loads, texts) if isinstance(value, dict)]
    shown = [value for value in values if value.keys() & known and "outcome" not in value]
    assert len(shown) > 5
    assert {name for value in shown for name in value} <= known


class TestKubernetes:
    """A cluster is not here; the manifests were held to the schemas of Kubernetes 1.37 once."""

    PAGE = ROOT / "docs" / "guides" / "kubernetes.md"

    def manifests(self) -> list[dict]:  # type: ignore[type-arg]
        here = [block for block in of("yaml") if block.page == self.PAGE]
        return [one for block in here for one in yaml.safe_load_all(block.text)]

    def test_all_are_of_a_kind_and_have_a_name(self) -> None:
        kinds = [(one["apiVersion"], one["kind"]) for one in self.manifests()]
        assert kinds == [("batch/v1", "CronJob"), ("batch/v1", "CronJob"), ("v1", "ServiceAccount")]
        assert all(one["metadata"]["name"] for one in self.manifests())

    def test_a_pod_finds_what_it_mounts_and_runs_commands_that_are_there(self) -> None:
        account = self.manifests()[-1]["metadata"]["name"]
        ran = []
        for job in self.manifests()[:2]:
            assert re.fullmatch(r"(\S+ ){4}\S+", job["spec"]["schedule"])
            pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            assert pod["serviceAccountName"] == account
            assert pod["restartPolicy"] in ("Never", "OnFailure")  # a job takes no other
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            for container in pod["containers"]:
                assert {one["name"] for one in container.get("volumeMounts", [])} == volumes
                (script,) = container["args"]
                ran += list(commands(script))
        for command in ran:
            refuse_unknown(command)
        assert [command[:2] for command in ran] == [
            ["target-singerlake", "--config"],
            ["singerlake", "freeze"],
            ["singerlake", "vacuum"],
        ]

    def test_the_image_runs_a_module_that_is_there(self) -> None:
        (image,) = [block for block in of("dockerfile") if block.page == self.PAGE]
        for module in re.findall(r"python -m ([\w.]+)", image.text):
            assert importlib.util.find_spec(module)
