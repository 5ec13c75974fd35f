# Everything lives in .venv/, so .venv/bin/reef works after any of these.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WHEELS ?= dist/wheels
SITE ?= dist/site
RESULTS ?= benchmarks/results
PROCESSES ?= 3
EXTRAS := dev$(shell nvidia-smi -L >/dev/null 2>&1 && echo ,gpu)
WRITTEN := tests/gpu/test_accepted.py tests/gpu/test_honest.py

.PHONY: help install demo test test-all peers gpu-check check lint format wheel clean
help:            ## Show this help
	@grep -E '^[a-z-]+: .*##' Makefile | sed -e 's/:.*## */\t/' | expand -t 14

install: $(STAMP) ## Create .venv and install Kernelreef with everything it needs

# torch and triton go first and pinned: an open range would fetch a newer build with gigabytes of CUDA libraries.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0 triton==3.7.1 numpy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	touch $(STAMP)

demo: $(STAMP)   ## Search for a faster softmax: measured on a card of this machine, predicted without one
	$(BIN)/reef search softmax --device auto --evaluations 16

# Tests wait for servers, locks and timers a good part of their time: more processes than cores keep the cores busy.
# Hundreds of processes import the same modules: whatever the environment says, only the first one compiles them.
test test-all: export PYTHONDONTWRITEBYTECODE :=
# WRITTEN would write all honest kernels when it is collected, in every process, for tests that are left out anyway.
test: $(STAMP)   ## The test suite (25 minutes on 2 shared cores)
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m "not slow and not gpu" $(WRITTEN:%=--ignore=%) $(JUNIT:%=--junitxml=%)

# Whoever drives a browser keeps an event loop running, in which no other test could run its own.
test-all: $(STAMP) ## Also the long suites
	-$(MAKE) peers
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m "not gpu" --ignore=tests/browser
	$(BIN)/python -m pytest -n $(PROCESSES) tests/browser

# A hundred packages that must not mix with ours.
peers: $(VENV)/peers/.installed $(VENV)/openenv/.installed ## Install programs of other makers that the long suites use
$(VENV)/peers/.installed: tests/journeys/peers.txt | $(STAMP)
	$(BIN)/python -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check -r tests/journeys/peers.txt
	touch $@

# OpenEnv pins an `mcp` that is older than ours, and conflicts with the programs above.
$(VENV)/openenv/.installed: pyproject.toml | $(STAMP)
	$(BIN)/python -m venv $(VENV)/openenv
	$(VENV)/openenv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[openenv]'
	touch $@

# Needs no .venv and no network: torch with CUDA on the host, and what docs/how-to/check-a-gpu-host.md has carried there in $(WHEELS).
gpu-check:       ## On a host with a card: the tests that need it, then its figures (docs/how-to/check-a-gpu-host.md)
	test ! -d $(WHEELS) || $(PYTHON) -m pip install --quiet --no-index --no-deps --upgrade --target $(SITE) $(WHEELS)/*.whl
	status=0; export PYTHONPATH=$(CURDIR):$(abspath $(SITE)); \
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(PYTHON) -m pytest -p pytest_timeout -p pytest_asyncio.plugin -m gpu \
		--confcutdir tests/gpu tests/gpu || status=$$?; \
	$(PYTHON) -m benchmarks.card --out $(RESULTS) || status=$$?; \
	$(PYTHON) -m benchmarks.searches --out $(RESULTS) || status=$$?; \
	exit $$status

check: lint      ## What lint does, house rules, docs, alembic check
	$(BIN)/python -m pytest -q tests/test_house_rules.py tests/test_docs.py tests/migrations

lint: $(STAMP)   ## ruff, mypy, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(STAMP)  ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean:           ## Remove everything that was built
	rm -rf $(VENV) dist
