# Two targets do everything on a fresh Debian or Ubuntu: `make demo` and `make test`.

SHELL := /bin/bash
.DELETE_ON_ERROR:
LANES := check quick lab kernel faults lab-slow slow pip fuzz
.PHONY: demo test test-slow setup tools packages picture clean $(LANES) test-real-wheels

# Whatever environment this is called from, the project uses its own.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
# Who needs what of the machine: see lab/needs.tsv.
GROUPS := setup lab kernel tests

## demo: two broken servers are reported, repaired and proved
demo: GROUPS := setup lab
demo: setup
	@$(BIN)/gpu-node lab up
	@$(BIN)/gpu-node lab reset
	@echo; echo "== As found =="
	@$(BIN)/gpu-node drift inventories/lab.py; code=$$?; [ $$code = 2 ] || { \
	  echo "make demo: the report of the broken nodes ended $$code, not 2" >&2; exit 1; }
	@echo; echo "== pyinfra inventories/lab.py deploy/gpu_node.py =="
	@PATH="$(CURDIR)/$(BIN):$$PATH" pyinfra -y inventories/lab.py deploy/gpu_node.py
	@echo; echo "== And now =="
	@$(BIN)/gpu-node drift inventories/lab.py

## test: format, lint, types, unit and contract tests, the tests on the lab and on real kernels
test: setup
	@$(BIN)/python -m tests.lanes check quick lab kernel

## test-slow: the whole catalogue of faults, further cases, pip in each shell, NVIDIA's own wheels
test-slow: setup
	@$(BIN)/python -m tests.lanes faults lab-slow slow pip fuzz real-wheels

## check, quick, lab, kernel, faults, lab-slow, slow, pip, fuzz, test-real-wheels: one lane alone
$(LANES) test-real-wheels: setup
	@$(BIN)/python -m tests.lanes $(@:test-%=%)

## packages: print the names of all packages that set-up may install; installs nothing
packages:
	@sh lab/install.sh packages

## setup: what apt and pip install
setup: .venv/.ready

tools:
	@PYTHON="$(PYTHON)" sh lab/install.sh install $(GROUPS)

# A venv that was not finished has no mark, and is made anew.
.venv/.ready: requirements.lock pyproject.toml | tools
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "set-up:" \
	  "$$($(PYTHON) --version) is too old: gpu-node needs 3.10; name a newer one: make PYTHON=..." >&2; exit 1; }
	@echo "set-up: making .venv" >&2
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation \
	  --config-settings editable_mode=compat -e .
	@touch $@

## picture: record a report, draw it for the README, and write the JSON Schema anew
picture: GROUPS := setup lab
picture: setup
	@$(BIN)/gpu-node lab up >/dev/null && $(BIN)/gpu-node lab reset
	@$(BIN)/gpu-node drift inventories/lab.py --format json -o docs/drift.json || [ $$? = 2 ]
	@$(BIN)/python docs/picture.py

clean:
	@[ ! -x $(BIN)/gpu-node ] || $(BIN)/gpu-node lab down
	@rm -rf .venv .lab .lanes .pytest_cache .mypy_cache .ruff_cache .hypothesis
