# Every target does its own set-up: a machine with Python 3.11, 3.12 or 3.13 needs nothing else.
#   make lab      start JupyterLab on the first notebook; ARGS="--port=9000" goes to JupyterLab
#   make test     everything: lint, types, unit tests, doctests, notebooks, a real browser
#   make check    lint, types, doctests, and the tests that need neither a browser nor long: some minutes
#   make format   lay out the code and strip the notebooks
#   make bench    every benchmark, one after the other: half an hour, on a machine that does nothing else
#   make screenshot  make the README's picture anew
#   make clean    remove .venv and what the tools left

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
ARGS ?=

# TensorFlow's log: errors only.
export TF_CPP_MIN_LOG_LEVEL ?= 3
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: lab test check lint types unit doctest nbval format bench screenshot clean constraints

lab: $(STAMP)
	@$(BIN)/python -m asyncsgd_edu lab $(ARGS)

# The last command runs most tests, so that its summary ends the output.
test: lint types doctest nbval
	$(PYTEST) tests

check: lint types doctest unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/python -m mypy

unit: $(STAMP)
	$(PYTEST) tests -m "not slow and not browser"

doctest: $(STAMP)
	$(PYTEST) --doctest-modules asyncsgd_edu

nbval: $(STAMP)
	$(PYTEST) --nbval-lax --nbval-current-env $(NOTEBOOKS)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	# Keeps the outputs of cells tagged keep_output, those that nbval compares, and the counts that it wants with them.
	$(BIN)/nbstripout --keep-count $(NOTEBOOKS)

bench: $(STAMP)
	@for each in recipe steps towers stamps simulator live_view latency starting growth trace_file; do \
	  echo; echo "benchmarks/$$each.py"; $(BIN)/python benchmarks/$$each.py || exit 1; \
	done

screenshot: $(STAMP)
	$(BIN)/python docs/screenshot.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# PYTHON=/path/to/python chooses one for a new environment. A candidate counts only if it runs and has venv.
$(STAMP): pyproject.toml constraints.txt
	@fits='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'; \
	if ! $(BIN)/python -c "$$fits" 2>/dev/null; then \
	  for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	    if "$$python" -c "$$fits" 2>/dev/null; then found="$$python"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "asyncsgd_edu needs Python 3.11, 3.12 or 3.13 with venv (Debian: apt install python3 python3-venv)." >&2; \
	    echo "If it lies elsewhere: make $(firstword $(MAKECMDGOALS) lab) PYTHON=/path/to/python" >&2; exit 1; \
	  fi; \
	  echo "making $(VENV) with $$("$$found" --version)"; "$$found" -m venv --clear $(VENV); \
	fi
	@echo "installing into $(VENV): once, it takes some minutes"
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[test,dev]"
	@touch $@

# A fresh environment, the newest versions that the ranges allow, written down. `make test` says if they work.
constraints:
	rm -rf build/constraints && $(or $(PYTHON),python3) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --upgrade ".[test,dev]"
	{ head -1 constraints.txt; build/constraints/bin/python -m pip freeze --all --exclude pip --exclude asyncsgd-edu \
	  | LC_ALL=C sort -f; } > build/constraints.txt
	mv build/constraints.txt constraints.txt && rm -rf build/constraints
