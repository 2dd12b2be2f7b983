# Two targets do everything on a fresh Debian or Ubuntu: `make demo` and `make test`.

SHELL := /bin/bash
.DELETE_ON_ERROR:
LANES := speed check quick lab kernel faults lab-slow kernel-slow slow shells slurm pip fuzz chaos
.PHONY: bench demo test test-slow setup setup-dev tools packages picture release clean $(LANES) test-real-wheels

# Whatever environment this is called from, the project uses its own.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
# What each target needs of the machine, beside a virtual environment: groups of lab/needs.tsv.
GOALS := $(or $(MAKECMDGOALS),demo)
ON_LAB := $(filter demo picture test-slow setup-dev lab kernel faults lab-slow chaos,$(GOALS))
ON_BENCH := $(filter bench speed test-slow setup-dev,$(GOALS))
ON_KERNEL := $(filter test-slow setup-dev kernel kernel-slow chaos,$(GOALS))
ON_SLURM := $(filter test-slow slurm,$(GOALS))
ON_SLOW := $(filter test-slow slow,$(GOALS))
TESTS := $(filter-out bench demo picture check setup release,$(GOALS))
GROUPS := setup $(if $(ON_LAB),lab) $(if $(ON_KERNEL),kernel) $(if $(ON_SLURM),slurm) $(if $(ON_SLOW),slow) $(if $(TESTS),tests) $(if $(ON_BENCH),bench)

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

## test: format, lint, types, and the quick tests: for every commit
test: setup-dev
	@$(BIN)/python -m tests.lanes check quick

## test-slow: speed, the lab, real kernels, all faults and shells, Slurm, pip, NVIDIA's own wheels
test-slow: setup-dev
	@$(BIN)/python -m tests.lanes speed lab kernel faults lab-slow kernel-slow slow shells slurm pip fuzz real-wheels

## speed, check, quick, lab, kernel, faults, lab-slow, kernel-slow, slow, shells, slurm, pip, fuzz, test-real-wheels: one lane alone
## chaos: kill runs and nodes at many moments, and print what the next run repairs; CHAOS_SEED=N is the seed
$(LANES) test-real-wheels: setup-dev
	@$(BIN)/python -m tests.lanes $(@:test-%=%)

## bench: measure reports beside other tools, and write docs/benchmarks.*; NODES="2 10" is a short run
bench: setup .bench/.ready
	@$(BIN)/python -m bench all $(NODES)

# What is measured beside gpu-node is never in .venv.
.bench/.ready: bench/requirements.txt | tools
	@rm -rf .bench/venv && "$(PYTHON)" -m venv .bench/venv
	@.bench/venv/bin/pip install -qq --disable-pip-version-check -r $<
	@touch $@

## packages: print the names of all packages that set-up may install; installs nothing
packages:
	@sh lab/install.sh packages

## setup: the commands gpu-node and pyinfra in .venv/bin, without the lab
setup: .venv/.ready

## setup-dev: all that the tests and the hooks of pre-commit need, with the lab
setup-dev: .venv/.ready-dev

tools:
	@PYTHON="$(PYTHON)" sh lab/install.sh install $(GROUPS)

# Another `make` in this folder waits, and finds what the first has made.
.venv/.ready: requirements.lock pyproject.toml | tools
	@exec flock .venv.lock sh lab/environment.sh "$(PYTHON)" $@ $^

.venv/.ready-dev: requirements-dev.lock .venv/.ready | tools
	@exec flock .venv.lock sh lab/environment.sh "$(PYTHON)" $@ $^

## picture: record the demo, and draw it for the README
picture: setup
	@$(BIN)/gpu-node lab up >/dev/null && $(BIN)/gpu-node lab reset
	@$(BIN)/gpu-node drift inventories/lab.py --format json -o docs/drift.json || [ $$? = 2 ]
	@PATH="$(CURDIR)/$(BIN):$$PATH" pyinfra -y --json inventories/lab.py deploy/gpu_node.py >.lab/run.json
	@$(BIN)/gpu-node drift inventories/lab.py --format json -o .lab/after.json
	@$(BIN)/python docs/picture.py .lab/run.json .lab/after.json

## release: build wheel and sdist in dist/, and try them in a new environment
release: setup-dev
	@$(BIN)/python -m tests.release

clean:
	@[ ! -x $(BIN)/gpu-node ] || $(BIN)/gpu-node lab down
	@rm -rf .venv .bench .lab .lanes dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
