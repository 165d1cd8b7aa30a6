"""A job's share: it never falls, and after ten seconds it says how long the rest will take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake_cli.share import Share


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(-10, 50), st.sampled_from(["", "part"])),
        max_size=40,
    )
)
def test_the_share_never_falls_whatever_is_counted(steps: list[tuple[int, int, str]]) -> None:
    share, shown, done, part = Share(0), 0.0, 0, 0
    for more, to_come, kind in steps:
        if kind:
            part += 1
            share.begin_part(1 - 0.5**part, done)
        done += more
        share.note(1, done, done + to_come)
        now = share.value or 0.0
        assert shown <= now <= 1
        shown = now
        assert share.percent == "" or 0 <= int(share.percent[:-1]) <= 99


def test_stages_that_become_known_late_do_not_lower_the_share() -> None:
    share = Share(0)
    seen = []
    for done, known in [(0, 4), (4, 4), (4, 8), (6, 8), (8, 8), (8, 40), (40, 40)]:
        share.note(1, done, known)
        seen.append(share.percent)
    assert seen == ["0%", "99%", "99%", "99%", "99%", "99%", "99%"]


def test_parts_count_by_their_weights() -> None:
    share = Share(0)
    share.begin_part(0.25, before=0)
    share.note(1, 1, 2)
    assert share.value == 0.125
    share.begin_part(1, before=2)  # the counter counts on
    assert share.value == 0.25
    share.note(2, 2, 2)
    assert share.value == 0.25
    share.note(3, 3, 4)
    assert share.value == pytest.approx(0.625)


def test_nothing_is_shown_of_what_nobody_counts() -> None:
    share = Share(0)
    share.note(20, 0, 0)
    assert (share.value, share.percent, share.left(20)) == (None, "", "")


@pytest.mark.parametrize(
    ("now", "done", "left"),
    [
        (9, 50, ""),  # too early
        (14, 50, "10 s left"),
        (14, 0, ""),  # nothing was done since it was watched
        (34, 90, "5 s left"),
        (104, 50, "2 min left"),
        (54, 1, "83 min left"),
        (104, 1, "2.8 h left"),
        (14, 100, ""),
    ],
)
def test_the_rest_is_told_after_ten_seconds(now: int, done: int, left: str) -> None:
    share = Share(0)
    share.note(4, 0, 100)  # the session has started
    share.note(now, done, 100)
    assert share.left(now) == left
