# Everything runs in .venv, which is made here on first use. It needs Python 3.11 or later, and make.
PYTHON ?= python3
RUN := .venv/bin/python
PYTEST := $(RUN) -m pytest

.PHONY: help demo test test-all bench docs fuzz lint clean

help:
	@echo "make demo      fit, complete and explain on generated data; writes ./hushrec-demo"
	@echo "make test      the quick tests"
	@echo "make test-all  all tests, the slow ones too"
	@echo "make lint      style, format and types"
	@echo "make docs      check the documents: their links, their code, the examples in the docstrings"
	@echo "make bench     measure speed and memory"
	@echo "make fuzz      hostile input, many times over"

demo: .venv/installed
	$(RUN) -m hushrec demo

test: .venv/installed-dev
	$(PYTEST) -q

test-all: .venv/installed-dev
	$(PYTEST) -q -m ""

lint: .venv/installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

docs: .venv/installed-dev
	$(PYTEST) -q tests/test_docs.py

# One that needs the path of a data set says so (exit code 2), and the others go on.
bench: .venv/installed-dev
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(RUN) $$file || [ $$? -eq 2 ]; done

fuzz: .venv/installed-dev
	$(RUN) fuzz/run.py
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -q -m "" -k "hypothesis"

clean:
	rm -rf .venv hushrec-demo results build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Installed once, and again when pyproject.toml changes.
.venv/installed: pyproject.toml | .venv/bin/python
	@echo "Installing Hushrec into .venv (once; this needs the network)."
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[plot]"
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	@echo "Installing Hushrec and what its tests need into .venv (once; this needs the network)."
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ .venv/installed

.venv/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or later is needed, and there is no $(PYTHON)." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv .venv || \
		{ rm -rf .venv; echo "$(PYTHON) cannot make virtual environments: install its venv module (python3-venv)." >&2; exit 2; }
