"""The fork server of the Python processes that run Spark's tasks, with their imports done.

Started by Spark on one machine, in the place of ``pyspark.daemon``. There each process would import
pyarrow and this package for itself. And after each task it looks through all of their objects for
garbage, which takes longer than a small task: frozen, they are not looked at.
"""

from __future__ import annotations

import gc

import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import singerlake.snapshot.building  # noqa: F401
from singerlake.rows.blocks import lenient_json

if __name__ == "__main__":
    lenient_json.ready()
    gc.freeze()
    manager()
