"""The seven characters: frozen vectors, and what must and must not change them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import InvalidNameError
from singerlake.format import farmhash64
from singerlake.format.schema_hash import canonical, schema_hash

try:
    import farmhash
except ImportError:  # it has no wheel for this Python
    farmhash = None
both = pytest.mark.skipif(farmhash is None, reason="pyfarmhash has no wheel for this Python")
VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
schemas = st.dictionaries(st.text("abé$", max_size=4), values, max_size=4)


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_frozen(vector: dict[str, Any]) -> None:
    text = canonical(vector["schema"], vector["key_properties"])
    assert text.decode("utf-8") == vector["canonical"]
    for carrier in (farmhash, farmhash64) if farmhash else (farmhash64,):
        assert f"{carrier.fingerprint64(text):016x}" == vector["fingerprint64"]
    assert schema_hash(vector["schema"], vector["key_properties"]) == vector["hash"]
    name = base64.b85encode(bytes.fromhex(vector["fingerprint64"]))[:7].decode()
    assert (name == vector["hash"]) is (vector["rehashes"] == 0)


@both
@given(st.binary(max_size=400))
def test_the_hash_is_the_same_by_another_carrier(text: bytes) -> None:
    assert farmhash64.fingerprint64(text) == farmhash.fingerprint64(text)


@both
def test_the_hash_is_the_same_for_every_length() -> None:
    for length in range(400):
        text = bytes((number * 167 + length) % 256 for number in range(length))
        assert farmhash64.fingerprint64(text) == farmhash.fingerprint64(text)


def test_the_vectors_have_every_case() -> None:
    assert {v["rehashes"] == 0 for v in VECTORS} == {True, False}
    assert any(v["rehashes"] > 1 for v in VECTORS)
    assert any(not v["canonical"].isascii() for v in VECTORS)


@given(schemas, st.lists(st.text("ab", max_size=3), max_size=3))
def test_safe_anywhere_and_indifferent_to_order(schema: dict[str, Any], keys: list[str]) -> None:
    name = schema_hash(schema, keys)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{6}", name)
    assert schema_hash(dict(reversed(schema.items())), keys) == name
    spaced = json.loads(json.dumps(schema, indent=3, ensure_ascii=False))
    assert schema_hash(spaced, keys) == name


@given(schemas, schemas)
def test_different_schemas_have_different_texts(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonical(one, []) == canonical(other, [])) is same
    assert canonical(one, ["id"]) != canonical(one, [])


@pytest.mark.parametrize("bad", [{"a": "\ud800"}, {"a": float("nan")}, {"a": float("inf")}])
def test_what_json_does_not_have(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidNameError):
        schema_hash(bad, [])
