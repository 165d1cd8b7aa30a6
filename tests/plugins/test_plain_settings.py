"""Settings that are plainly good are good by the SDK's library, and filled in alike."""

from __future__ import annotations

import copy
import importlib.metadata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from singer_sdk.plugin_base import JSONSchemaValidator

from singerlake.plugins.plugin import LakePlugin, filled
from tap_singerlake.tap import TapSingerlake
from target_singerlake.target import TargetSingerlake

PLUGINS: list[type[LakePlugin]] = [TapSingerlake, TargetSingerlake]


def properties_of(plugin: type[LakePlugin]) -> dict[str, Any]:
    known = copy.deepcopy(plugin.config_jsonschema)
    plugin.append_builtin_config(known)
    found: dict[str, Any] = known["properties"]
    return found


def by_the_sdk(config: dict[str, Any], properties: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    own = copy.deepcopy(config)
    validator = JSONSchemaValidator({"type": "object", "properties": properties})
    return not list(validator.iter_errors(own)), own


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2_000_000),
    st.floats(),
    st.sampled_from(["", "fail", "warn", "rows", "quarantine", "keep", "__NULL__", "true", "1"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda one: st.one_of(
        st.lists(one, max_size=2),
        st.dictionaries(st.sampled_from(["a*", "seed", "storage", "root"]), one, max_size=2),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_what_is_plainly_good_is_good(plugin: type[LakePlugin]) -> None:
    properties = properties_of(plugin)
    plain = set()

    @settings(max_examples=300, deadline=None)
    @given(st.dictionaries(st.sampled_from([*properties, "else"]), VALUES, max_size=4))
    def check(config: dict[str, Any]) -> None:
        given_, own = copy.deepcopy(config), copy.deepcopy(config)
        seen = filled(own, properties)
        plain.add(seen)
        good, by_sdk = by_the_sdk(given_, properties)
        if seen:
            assert good
            assert own == by_sdk

    check()
    assert plain == {True, False}


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        ({}, True),
        ({"lake": "./lake", "tap_id": "tap-shop", "of_somebody_else": [1]}, True),
        ({"schema_changes": {"orders*": "fail"}, "file_roots": ["a"], "commit_minutes": 0.5}, True),
        ({"metadata": {"run_id": {"any": [1]}}, "lake": None}, True),
        ({"block_rows": True}, False),
        ({"block_rows": 0}, False),
        ({"block_rows": 1.0}, False),  # the SDK takes it for an integer, and says so
        ({"commit_minutes": float("nan")}, False),
        ({"non_finite": "nul"}, False),
        ({"non_finite": None}, False),
        ({"file_roots": ["a", 1]}, False),
        ({"schema_changes": {"orders*": "stop"}}, False),
        ({"stream_maps": {"orders": {"id": "id"}}}, False),  # for the SDK to look at
        ({"lake": b"bytes"}, False),
    ],
)
def test_of_the_target(config: dict[str, Any], plain: bool) -> None:
    assert filled(dict(config), properties_of(TargetSingerlake)) is plain


def test_what_is_wrong_is_said_in_the_sdk_s_words() -> None:
    config = {"lake": "./lake", "tap_id": "a", "block_rows": 0}
    target = TargetSingerlake(config=config, validate_config=False)
    assert target._validate_config(raise_errors=False) == [
        "0 is less than the minimum of 1 in config['block_rows']"
    ]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_versions_are_those_of_the_packages(plugin: type[LakePlugin]) -> None:
    assert plugin.get_sdk_version() == importlib.metadata.version("singer-sdk")
    assert plugin.get_plugin_version() == importlib.metadata.version("singerlake")
