"""Very many paths are checked together as each of them is alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format import data_paths
from singerlake.format.data_paths import are_data_paths
from singerlake.format.names import is_data_path

GOOD = "NFSHXeX/orders-1.singer.gz"
ODD = [
    *("", "/", "a", "NFSHXeX", "NFSHXeX/", "NFSHXeX/.singer.gz", "NFSHXeX/.x.singer.gz"),
    *("NFSHXeX/x.singer.gz", "NFSHXeX/x", "NFSHXeX/x.singer.gz.", "NFSHXe/x.singer.gz"),
    *("NFSHXeX/x/y.singer.gz", "NFSHXeX//x.singer.gz", "/NFSHXeX/x.singer.gz", "../x.singer.gz"),
    *("NFSHXeX/a\\b.singer.gz", "NFSHXeX/\\.singer.gz", "-FSHXeX/x.singer.gz"),
    *("NFSHXeX/a\nb.singer.gz", "NFSHXeX/a.singer.gz\n", "\n", "NFSHXeX/a.singer.gz\nNFSHXeX/b"),
]


@pytest.mark.parametrize("odd", ODD)
def test_one_that_is_none_is_found_among_others(odd: str) -> None:
    for some in ([odd], [GOOD, odd], [odd, GOOD], [GOOD, odd, GOOD]):
        assert are_data_paths(some) is (is_data_path(odd) and "\n" not in odd)


@given(st.lists(st.one_of(st.sampled_from([GOOD, *ODD]), st.text("N/.\\\n-a", max_size=12))))
def test_it_never_says_more_than_each_alone(paths: list[str]) -> None:
    if are_data_paths(paths):
        assert all(map(is_data_path, paths))
    if are_data_paths([GOOD, *paths]) is not are_data_paths(paths):
        raise AssertionError(paths)


def test_more_than_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_paths, "_SOME", 3)
    for count in range(8):
        assert are_data_paths([GOOD] * count)
        for at in range(count):
            some = [GOOD] * count
            some[at] = "NFSHXeX/x"
            assert not are_data_paths(some)
