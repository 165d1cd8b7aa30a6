"""Dagster: a sync and a freeze as assets, with the version as metadata of the materialization.

Singerlake and the tap are programs in environments of their own: Dagster only has to find them on
its PATH. To look at the assets: ``dagster dev -f definitions.py``
"""

import json
import os
import subprocess

import dagster as dg

TABLE = "tap-shop.orders"
SYNC = ["./sync", "state.json", "target.json", "tap-shop"]
# Whatever failed may run again: nothing is stored twice by that, and nothing is lost.
RETRIES = dg.RetryPolicy(max_retries=2, delay=60)


class Lake(dg.ConfigurableResource):
    """The lake, and the folder with ``sync``, ``target.json`` and the tap's bookmark."""

    lake: str
    folder: str

    def run(self, context: dg.AssetExecutionContext, *command: str) -> str:
        """Run a command, and give what it prints; its log goes to the step's stderr."""
        run = {"DAGSTER_RUN_ID": context.run_id, "DAGSTER_RUN_JOB_NAME": context.job_name}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "SINGERLAKE_LAKE": self.lake, **run},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise dg.Failure(f"{command[0]} ended with {done.returncode}: see stderr of this step")
        return done.stdout


@dg.asset(key_prefix="tap_shop", retry_policy=RETRIES)
def orders(context: dg.AssetExecutionContext, lake: Lake) -> dg.MaterializeResult:
    """What is new from the tap, in the lake."""
    lake.run(context, *SYNC)
    table = json.loads(lake.run(context, "singerlake", "--output", "json", "show", TABLE))
    return dg.MaterializeResult(metadata={"transaction": table["transaction"]})


@dg.asset(key_prefix="tap_shop", deps=[orders], retry_policy=RETRIES)
def orders_version(context: dg.AssetExecutionContext, lake: Lake) -> dg.MaterializeResult:
    """The table's state after the sync, under a number that means it for ever."""
    freeze = ["freeze", TABLE, "--comment", f"Dagster run {context.run_id}"]
    version = json.loads(lake.run(context, "singerlake", "--output", "json", *freeze))
    return dg.MaterializeResult(
        metadata={
            "version": version["number"],
            "transaction": version["transaction"],
            "fingerprint": version["fingerprint"],
            "dagster/row_count": version["rows"],
        },
        # Equal rows have equal fingerprints: what is made from them need not be made again.
        data_version=dg.DataVersion(version["fingerprint"]),
    )


nightly = dg.ScheduleDefinition(
    name="nightly",
    target=dg.AssetSelection.assets(orders, orders_version),
    cron_schedule="5 3 * * *",
)
defs = dg.Definitions(
    assets=[orders, orders_version],
    schedules=[nightly],
    resources={
        "lake": Lake(
            lake=dg.EnvVar("SINGERLAKE_LAKE"),
            folder=dg.EnvVar("SHOP_FOLDER"),
        )
    },
)
