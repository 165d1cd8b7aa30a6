from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.log import Block
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.positions import code as position_code
from singerlake.rows.state import activations
from tests.histories.model import Message, survivors

MESSAGES = st.lists(
    st.one_of(
        st.integers(1, 3),
        st.builds(lambda version: ({}, version), st.integers(1, 3)),
        st.just({}),
    ),
    max_size=40,
)


def blocks_of(messages: list[Message], size: int) -> list[Block]:
    """As the log would describe them, blocks of so many messages."""
    blocks = []
    for start in range(0, len(messages), size):
        rows, activations = 0, []
        for message in messages[start : start + size]:
            if isinstance(message, int):
                activations.append((rows, message))
            else:
                rows += 1
        number = start // size + 1
        blocks.append(Block(number, "abcdefg/f", 0, 1, rows, 100, activations=activations))
    return blocks


@settings(max_examples=300, deadline=None)
@given(MESSAGES, st.integers(1, 7))
def test_two_activations_are_enough(messages: list[Message], size: int) -> None:
    blocks = blocks_of(messages, size)
    rule = activations.survival(blocks)
    in_blocks = [(block.number, ordinal) for block in blocks for ordinal in range(block.rows)]
    read = {block.number for block in activations.needed(blocks, rule)}
    expected = survivors(messages)
    versions = pa.array([version for _, version, _ in expected], pa.int64())
    codes = np.array([position_code(*at) for at in in_blocks], dtype=np.int64)
    assert rule.mask(codes, versions).tolist() == [left for _, _, left in expected]
    for (_, _, left), (block, _) in zip(expected, in_blocks, strict=True):
        assert block in read or not left


@given(st.lists(st.integers(1, 5 << 20), max_size=60), st.integers(1, 8), st.integers(1, 9 << 20))
def test_tasks_share_all_blocks_in_order(sizes: list[int], least: int, most: int) -> None:
    blocks = [Block(n, "abcdefg/f", 0, 1, 1, size) for n, size in enumerate(sizes, start=1)]
    tasks = block_tasks.split(blocks, least, most)
    assert [block for task in tasks for block in task] == blocks
    assert all(tasks)
    if sizes and sum(sizes) >= 2 * least * max(sizes) and max(sizes) > 1 << 20:
        assert len(tasks) >= least


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.integers(1, 7))
def test_many_survivals_in_one_pass(messages: list[Message], size: int) -> None:
    blocks = blocks_of(messages, size)
    ends = list(range(len(blocks) + 3))
    assert activations.survivals(blocks, ends) == [
        activations.survival(blocks[:end]) for end in ends
    ]
