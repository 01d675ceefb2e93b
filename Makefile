VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.stamp
PIP   := $(BIN)/python -m pip --disable-pip-version-check

# The Python that makes the environment; `make setup PYTHON=/path/to/python` overrides the search.
PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help setup test lint demo clean

help:
	@echo "make setup   make $(VENV) and install graphsched and its tools there"
	@echo "make test    set up, then check style, types and layers, and run the tests"
	@echo "make lint    the checks of 'make test' without the tests"
	@echo "make demo    set up, then run a small example end to end"
	@echo "make clean   remove $(VENV), caches and build output"

setup: $(STAMP)

# The stamp comes last, so a set-up that failed starts again.
$(STAMP): pyproject.toml constraints.txt
	@rm -f $@
	@if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		python="$(PYTHON)"; \
		if ! "$${python:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "graphsched needs Python 3.11 or newer; found: $$($${python:-python3} --version 2>&1)" >&2; \
			echo "Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; \
			exit 1; \
		fi; \
		echo "==> Making $(VENV) with $$python"; \
		"$$python" -m venv --clear $(VENV); \
	fi
	@echo "==> Installing torch (a large download the first time)"
	@$(PIP) install -qq -c constraints.txt torch
	@echo "==> Installing graphsched and its tools"
	@$(PIP) install -qq -c constraints.txt -e '.[test,dev,optimal]'
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

demo: setup
	$(BIN)/graphsched demo

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
