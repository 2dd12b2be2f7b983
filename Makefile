# Two targets do everything on a fresh Debian or Ubuntu: `make demo` and `make test`.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: demo test check quick lab-up lab-test other-nodes all-nodes test-kernel test-real-wheels setup tools picture clean

# Whatever environment this is called from, the project uses its own.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq
# What the tests ask of the machine beside the lab, as command=package.
TOOLS := shellcheck=shellcheck busybox=busybox dash=dash cc=gcc

## demo: two broken servers are reported, repaired and proved
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

## test: format, lint, types, unit and contract tests, then the tests on the lab
# The lab's tests mostly wait, so the others run beside them; each lane's output stays together.
test: setup tools
	@$(MAKE) --no-print-directory -j4 --output-sync=target check quick lab-test other-nodes all-nodes test-kernel

check: setup tools
	@$(BIN)/ruff format --check --quiet . || { \
	  echo "make test: run '$(BIN)/ruff format .'" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

quick: setup tools
	@$(BIN)/pytest -m "not lab and not kernel"

# v100-02 is nobody else's, so its tests run beside those of the two other nodes.
OTHER_NODES := $(addprefix tests/e2e/,test_other_nodes.py test_nccl.py test_packages_deb.py \
  test_driver_deb.py test_shm.py test_contact.py)
# These need all three.
ALL_NODES := $(addprefix tests/e2e/,test_ssh.py test_workspace.py \
  test_preflight.py test_onboard.py)
lab-up: setup tools
	@$(BIN)/gpu-node lab up >/dev/null
lab-test: lab-up
	@$(BIN)/pytest -m lab $(addprefix --ignore=,$(OTHER_NODES) $(ALL_NODES))
other-nodes: lab-up
	@$(BIN)/pytest -m lab $(OTHER_NODES)
all-nodes: lab-test other-nodes
	@$(BIN)/pytest -m lab $(ALL_NODES)

## test-kernel: what takes a kernel of its own, in a virtual machine; its disk is built once
test-kernel: setup tools
	@$(BIN)/pytest -m kernel tests/kernel

## test-real-wheels: NVIDIA's own wheels (400 MB from the package index), which no other lane fetches
test-real-wheels: setup tools
	@$(BIN)/pytest -m real_wheels --durations=0 --durations-min=0.5 tests/real_wheels

setup: .venv/.ready

# A venv that was not finished has no mark, and is made anew.
.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  $(APT) update && $(APT) install -y python3-venv; } >&2
	@echo "setting up .venv" >&2
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation \
	  --config-settings editable_mode=compat -e .
	@touch $@

tools:
	@lacking=""; for tool in $(TOOLS); do \
	  command -v "$${tool%%=*}" >/dev/null || lacking="$$lacking $${tool##*=}"; done; \
	[ -z "$$lacking" ] || { echo "installing$$lacking" >&2; \
	  { $(APT) update && $(APT) install -y --no-install-recommends $$lacking; } >/dev/null; }

## picture: record a report, draw it for the README, and write the JSON Schema anew
picture: setup
	@$(BIN)/gpu-node lab up >/dev/null && $(BIN)/gpu-node lab reset
	@$(BIN)/gpu-node drift inventories/lab.py --format json -o docs/drift.json || [ $$? = 2 ]
	@$(BIN)/python docs/picture.py

clean:
	@[ ! -x $(BIN)/gpu-node ] || $(BIN)/gpu-node lab down
	@rm -rf .venv .lab .pytest_cache .mypy_cache .ruff_cache .hypothesis
