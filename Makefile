# Everything happens in .venv, which is made at first use. Java 17 or later is expected on the
# machine for the Spark jobs; nothing else.
PYTHON ?= python3
BIN := .venv/bin
DEMO ?= singerlake-demo

.PHONY: help demo test lint format bench clean

help:
	@echo "make demo    install, and run the whole road once in $(DEMO)/"
	@echo "make test    install, and pass the tests"
	@echo "make lint    ruff, mypy --strict, import contracts"
	@echo "make format  let ruff lay the code out"
	@echo "make bench   measure against peers on this machine (see bench/README.md)"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Singerlake needs Python 3.10 or later: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ .venv/installed

demo: .venv/installed
	$(BIN)/singerlake demo $(DEMO)

test: .venv/installed-dev
	$(BIN)/python -m pytest $(ARGS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-dev
	$(BIN)/python bench/run.py $(ARGS)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
