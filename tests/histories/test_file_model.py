"""Random histories of rows that name files, against a plain model (``file_histories.py``).

After each step, every state that can still be read has its files, byte for byte, and every frozen
version, and the head, is read as programs read it. In CI three histories, the same in every run:

    SINGERLAKE_EXAMPLES=50 pytest tests/histories/test_file_model.py --hypothesis-seed=1
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, assume, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from tests.faults.cases import fast_folder
from tests.histories.file_histories import Histories

EXAMPLES = int(os.environ.get("SINGERLAKE_EXAMPLES", "0"))
IDS = st.integers(0, 3)
PHOTOS = st.dictionaries(IDS, st.sampled_from("abcde"), min_size=1, max_size=3)


class FileHistory(RuleBasedStateMachine):
    """Every rule is a thing that users do."""

    spark: SparkSession

    @initialize(first=PHOTOS, second=PHOTOS)
    def begin(self, first: dict[int, str], second: dict[int, str]) -> None:
        # Not the simplest history, which is always first: it freezes, and freezes, and freezes.
        assume({*first.values(), *second.values()} != {"a"})
        self._folder = fast_folder()
        self.world = Histories(self.spark, Path(self._folder.__enter__()) / "lake")
        self.world.sync(first)
        self.world.freeze()
        self.world.sync(second)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self._folder.__exit__(None, None, None)

    @rule(photos=PHOTOS)
    def sync(self, photos: dict[int, str]) -> None:
        self.world.sync(photos)

    @rule(id_=IDS)
    def delete(self, id_: int) -> None:
        self.world.delete(id_)

    @precondition(lambda self: self.world.states[-1])
    @rule(id_=IDS, data=st.data())
    def change(self, id_: int, data: st.DataObject) -> None:
        there = sorted(self.world.states[-1])
        self.world.change(id_, data.draw(st.sampled_from(there), "as in"))

    @rule()
    def freeze(self) -> None:
        self.world.freeze()

    @precondition(lambda self: self.world.versions)
    @rule(data=st.data())
    def delete_version(self, data: st.DataObject) -> None:
        versions = sorted(self.world.versions)
        self.world.delete_version(data.draw(st.sampled_from(versions), "version"))

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        retained = st.integers(self.world.floor, len(self.world.states) - 1)
        versions = sorted(self.world.versions.values())
        to = retained | st.sampled_from(versions) if versions else retained
        self.world.revert(data.draw(to, "to"))

    @rule()
    def vacuum(self) -> None:
        """History that no version keeps is dropped; then what no state needs goes."""
        self.world.vacuum()

    @invariant()
    def every_promised_state_has_its_files(self) -> None:
        if hasattr(self, "world"):
            self.world.check()
            self.world.read()


def test_random_histories_of_files(spark: SparkSession) -> None:
    class Machine(FileHistory):
        pass

    Machine.spark = spark
    long = EXAMPLES > 0
    run_state_machine_as_test(
        Machine if long else seed(3)(Machine),
        settings=settings(
            max_examples=EXAMPLES or 3,
            stateful_step_count=20 if long else 10,
            database=None,
            deadline=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate, Phase.shrink] if long else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
