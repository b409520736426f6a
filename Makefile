# `make demo` and `make test` do all the set-up they need; nothing has to be run first.
#   WSCHED_NO_NVFUSER=1   leave nvFuser (and the torch it needs, 7 GB) out
#   WSCHED_VENV=DIR       the environment, .venv unless told
#   PYTHON=/path/python   (or WSCHED_PYTHON) use this interpreter as it is and install nothing
#   JOBS=2                pytest workers; ARGS="..." goes to pytest or to the demo

.DEFAULT_GOAL := help
.PHONY: help demo test test-all reference lint fmt gpu-test setup clean

# Only from the command line: many environments export PYTHON for reasons of their own.
ifeq ($(origin PYTHON),command line)
export WSCHED_PYTHON := $(PYTHON)
endif
RUN := $(or $(WSCHED_PYTHON),$(or $(WSCHED_VENV),.venv)/bin/python)
SETUP := tools/setup.sh --need
JOBS ?= 2

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: ## set up, then define, schedule, run and check a matmul
	@$(SETUP) demo
	@$(RUN) -m wsched demo $(ARGS)

# Tests start a hundred processes; without bytecode each compiles the tree again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(RUN) -m pytest -n $(JOBS) --dist worksteal --raises

test: lint ## set up, then lint, types, limits and all tests that are not slow
	@$(SETUP) test
	$(PYTEST) -m "not slow" $(ARGS)

test-all: lint ## the same with the slow tests: what .ci/run does
	@$(SETUP) test
	$(PYTEST) $(ARGS)

lint: ## the checks of `make test` that run no code
	@$(SETUP) lint
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) tools/check_tree.py

fmt: ## format, sort imports, apply the safe fixes
	@$(SETUP) lint
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

reference: ## the API reference, build/reference/wsched.html, from the docstrings; checks its links
	@$(SETUP) test
	$(RUN) tools/reference.py build/reference

gpu-test: ## the tests that need a CUDA device, one at a time
	@$(SETUP) gpu-test
	$(RUN) -m pytest -m gpu $(ARGS)

setup: ## only the set-up; tools/setup.sh --again repeats it from nothing
	@$(SETUP) test

clean: ## remove caches, build outputs and dumps; the environment stays
	rm -rf build dist wsched-dump *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find wsched lowering passes tools tests -name __pycache__ -type d -prune -exec rm -rf {} +
