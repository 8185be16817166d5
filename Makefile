# make demo, make test and make check each work in a fresh clone: they need python3 with pip, nothing else.
# They make .venv, install what they need (again only when pyproject.toml changed), and run.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help venv demo test coverage fuzz check format clean

help:
	@echo "make demo     run the examples"
	@echo "make test     run the tests, documentation examples included"
	@echo "make coverage the tests of what defines the language, measured: which branches they run"
	@echo "make fuzz     random programs against the interpreter and exact numbers, for SECONDS=1800"
	@echo "make check    lint, check formatting, types and the order of the rooms"
	@echo "make format   format the sources and apply the safe fixes"
	@echo "make venv     only make .venv, with everything a developer needs"
	@echo "make clean    remove .venv and what tools left behind"

# Debian's python3 has venv without ensurepip; there pip comes from outside the environment.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $@ install -q pip; }

# One stamp for each extra of pyproject.toml; touched only after pip succeeded.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e ".[$*]"
	@touch $@

.PRECIOUS: $(VENV)/.installed-%

venv: $(VENV)/.installed-dev

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/cross_level.py
	$(BIN)/python examples/ocr.py

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -q -n 2 tests

# The tests of the rooms that define the language, and those that come near them.
DEFINING := $(addprefix tests/,analysis compat core interpreter language prim transform)

coverage: $(VENV)/.installed-test
	$(BIN)/python -m pytest -q -n 2 --cov --cov-report=term $(DEFINING)

SECONDS ?= 1800

fuzz: $(VENV)/.installed-test
	$(BIN)/python tools/fuzz.py --seconds $(SECONDS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo  # its cache keeps verdicts that a moved module has made wrong

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests examples tools -name __pycache__ -type d -prune -exec rm -rf {} +
