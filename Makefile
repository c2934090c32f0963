# Everything runs in .venv, which is made on first use and again when its inputs change.
# Options: PYTHON=<interpreter to make .venv with>, ARGS=<more arguments for what runs>, MINUTES=<of make soak>

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '$(IS_NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)
SCRIPTS := $(sort $(dir $(wildcard benchmarks/*.py docs/*.py examples/*.py)))

.DEFAULT_GOAL := help
.PHONY: help demo test check faults soak federation service bench format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Train a small federation and watch it find its cohorts
	@$(BIN)/auxo demo $(ARGS)

test: $(READY) ## Run all tests and doctests, the slow ones too
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

faults: $(READY) ## Show what comes of each fault, against real processes; ARGS=--quick for some of it
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/run.py $(ARGS)

soak: $(READY) ## Kill a random process of a run every few seconds for MINUTES=10, and see it complete; ARGS=--ray on Ray
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/soak.py --minutes $(or $(MINUTES),10) $(ARGS)

federation: $(READY) ## Bring up a Flower federation on loopback, find its cohorts, kill and resume, take it down
	$(BIN)/python examples/federation/run.py $(ARGS)

service: $(READY) ## Bring up a live service on loopback, find its cohorts, kill its processes, see them back, take it down
	OMP_NUM_THREADS=1 $(BIN)/python examples/service/run_service.py $(ARGS)

check: $(READY) ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src tests $(SCRIPTS)
	$(BIN)/lint-imports

bench: $(READY) ## Measure speed beside peers, and how well cohorts are identified; draw a page
	$(BIN)/python benchmarks/suite.py --json build/bench.json --page build/bench.html --peers fedjax,pfl,flower $(ARGS)

format: $(READY) ## Format the code and repair what lint can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove all that make has made, .venv included
	rm -rf $(VENV) build src/auxo.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" -c '$(IS_NEW_ENOUGH)' 2>/dev/null || { \
		echo "Auxo needs Python 3.11 or newer, and '$(PYTHON)' is not that (empty: none was found)." >&2; \
		echo "Install one, or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@echo "Setting up $(VENV) (the first time takes some minutes: torch is large) ..."
	@"$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[torch,ray,data,text,flower,dp,service,dev]"
	@touch $@
	@echo "$(VENV) is ready."
