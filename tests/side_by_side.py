"""How the tests are dealt out to the three processes of ``make test``.

A file goes to one process as a whole, so that what its tests share is made once. All but the last
process take the files that need Spark, and help with the rest once these are done; the last one
takes the rest. So one session less is begun, and warmed up, than where each process comes to need
one. Long files go first, or the last one would run alone.

Three processes are for two cores: tests also wait for disks, locks, servers and other programs,
and of two processes one would then leave its core idle.
"""

from __future__ import annotations

from pathlib import Path

from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

SECONDS = {
    "tests/faults/test_faults.py": 170,
    "tests/spark/test_change.py": 144,
    "tests/spark/test_stage.py": 108,
    "tests/spark/test_model.py": 75,
    "tests/model/test_model.py": 98,
    "tests/spark/test_difference.py": 81,
    "tests/spark/test_erase.py": 79,
    "tests/spark/test_changes_at_once.py": 44,
    "tests/test_wheel.py": 62,
    "tests/meltano/test_meltano.py": 60,
    "tests/spark/test_published_files.py": 55,
    "tests/spark/test_checks.py": 51,
    "tests/cli/test_shell_command.py": 51,
    "tests/spark/test_undo.py": 48,
    "tests/projections/test_source_events.py": 44,
    "tests/spark/test_change_interleavings.py": 44,
    "tests/spark/test_stage_model.py": 40,
    "tests/pages/test_run.py": 39,
    "tests/cli/test_upload.py": 37,
    "tests/spark/test_overlay.py": 35,
    "tests/spark/test_misfits.py": 34,
    "tests/spark/test_erase_killed.py": 33,
    "tests/spark/test_change_frames.py": 32,
    "tests/spark/test_layers.py": 32,
    "tests/spark/test_cluster.py": 32,
    "tests/cli/test_interrupts.py": 32,
    "tests/postgres": 29,  # 75, but what it needs is still being installed at first
    "tests/spark/test_published_tables.py": 28,
    "tests/spark/test_interleavings.py": 26,
    "tests/projections/test_dry_run.py": 26,
    "tests/spark/test_index.py": 25,
    "tests/spark/test_class_data.py": 17,
    "tests/projections/test_publish.py": 22,
    "tests/test_notebook.py": 22,
    "tests/spark/test_change_overlay.py": 21,
    "tests/spark/test_revert_bytes.py": 21,
    "tests/transactions/test_non_conditional.py": 21,
    "tests/cli/test_alter.py": 20,
    "tests/spark/test_api.py": 19,
    "tests/requests/test_requests_spark.py": 19,
    "tests/projections/test_killed.py": 18,
    "tests/cli/test_diff.py": 18,
    "tests/spark/test_java.py": 18,
    "tests/spark/test_alter.py": 16,
    "tests/spark/test_publish_fresh.py": 16,
    "tests/spark/test_state.py": 16,
    "tests/spark/test_vacuum.py": 16,
    "tests/cli/test_spark_commands.py": 15,
    "tests/spark/test_old_lakes.py": 15,
    "tests/orchestrators/test_examples.py": 15,
}
"""About what the long ones take on two cores. Only the order matters; all others count as short."""

SESSION = ("SparkSession", 'usefixtures("spark"')
"""What a file says whose tests share this process's session."""
TOGETHER = ("tests/postgres",)
"""Folders whose files share what is dear: a PostgreSQL of their own."""


class WholeFiles(LoadScopeScheduling):
    """Deals out whole files, to the last process those that need no Spark, as long as it can."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        spark = node is not self.nodes[-1]
        best = max(
            self.workqueue,
            key=lambda scope: (self._needs_spark(scope) is spark, SECONDS.get(scope, 0)),
        )
        self.workqueue.move_to_end(best, last=False)
        super()._assign_work_unit(node)

    def _needs_spark(self, scope: str) -> bool:
        path = Path(self.config.rootpath, scope)
        files = path.glob("test_*.py") if path.is_dir() else [path]
        texts = [file.read_text("utf-8") for file in files]
        return any(sign in text for text in texts for sign in SESSION)
