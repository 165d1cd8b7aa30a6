"""Materializes the example's assets, and prints what was told of them. Runs where Dagster is."""

import json
import sys

import dagster as dg

sys.path.insert(0, sys.argv[1])
import definitions

with dg.DagsterInstance.ephemeral() as instance:
    job = definitions.defs.resolve_implicit_global_asset_job_def()
    done = job.execute_in_process(instance=instance, raise_on_error=False)
    told = {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        for event in done.get_asset_materialization_events()
    }
    latest = instance.get_latest_materialization_event(definitions.orders_version.key)
    tags = latest.asset_materialization.tags if latest else {}
    schedule = definitions.defs.resolve_schedule_def("nightly")
print(
    json.dumps(
        {
            "success": done.success,
            "run": done.run_id,
            "told": told,
            "data_version": tags.get("dagster/data_version"),
            "schedule": schedule.cron_schedule,
        }
    )
)
