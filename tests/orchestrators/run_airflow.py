"""Runs the example's DAG once, without a scheduler. Runs where Airflow is."""

import sys

from airflow.dag_processing.dagbag import DagBag

bag = DagBag(sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
bag.dags["lake"].test()
