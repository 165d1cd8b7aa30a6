"""Airflow: a sync and a freeze each night. The version goes to XCom, and to the asset's event.

Singerlake and the tap are programs in environments of their own: the workers only have to find them
on their PATH. SINGERLAKE_LAKE says where the lake is, and SHOP_FOLDER which folder has ``sync``,
``target.json`` and the tap's bookmark; where there are several workers, both are places that all of
them reach.
"""

import json
import os
import subprocess
from datetime import timedelta
from typing import Any

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, dag, task

TABLE = "tap-shop.orders"
VERSION = Asset(name="orders_version", uri="singerlake://tap-shop/orders")


@dag(
    schedule="5 3 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    # Whatever failed may run again: nothing is stored twice by that, and nothing is lost.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
)
def lake() -> None:
    """What is new from the tap, and the state after it as a version."""
    sync = BashOperator(
        task_id="sync",
        bash_command='cd "$SHOP_FOLDER" && ./sync state.json target.json tap-shop',
        do_xcom_push=False,  # it would be the last line of the log
    )

    @task(outlets=[VERSION])
    def freeze(*, run_id: str, outlet_events: Any) -> dict[str, Any]:
        """The number, the rows and the fingerprint of a new version."""
        command = ["singerlake", "--output", "json", "freeze", TABLE]
        printed = subprocess.run(
            [*command, "--comment", f"Airflow run {run_id}"],
            cwd=os.environ["SHOP_FOLDER"],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        version = json.loads(printed)
        told = {"version": version["number"], **{k: version[k] for k in ("rows", "fingerprint")}}
        outlet_events[VERSION].extra = told
        return told

    sync >> freeze()


lake()
