# One command for each job. Needs make and Python 3.10 or newer; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= grades

.PHONY: help setup grade test check release lint bench clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup: .venv/.done  ## make .venv and install the project with all that an instructor needs

.venv/.done: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
		|| { echo "Python 3.10 or newer is needed: make PYTHON=/path/to/python3"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[instructor,dev]'
	@touch $@

grade: setup  ## grade the example submissions and say where the report lies
	$(BIN)/hw grade examples/submissions --out $(OUT)

test: setup  ## run the engine's own tests
	$(BIN)/python -m pytest

check: setup  ## run the public tests of the student files in assignments/
	$(BIN)/hw check

release: setup  ## make assignments/ from solutions/
	$(BIN)/hw release

lint: setup  ## formatting, lints, types, and whether assignments/ is in step with solutions/
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/hw release --check

bench: setup  ## measure every figure of docs/performance.md (some minutes; leave the machine alone meanwhile)
	$(BIN)/python -m bench.run > docs/performance.md.part && mv docs/performance.md.part docs/performance.md

clean:  ## remove what make made
	rm -rf .venv $(OUT) build *.egg-info
