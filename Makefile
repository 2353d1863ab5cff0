# Everything is set up in $(VENV) by the rules that need it: `make run` on a fresh clone is enough.
#
#   PYTHON           the Python to make the environments with (default: python3)
#   TORCH_INDEX_URL  the package index to take PyTorch from; for a machine without a GPU
#                    https://download.pytorch.org/whl/cpu, which saves gigabytes on Linux
#   ARGS             more options for ./benchmark.py (make run) or pytest (make test)

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
export TORCH_INDEX_URL
# The tests start hundreds of processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# A test that takes 15 minutes fails. One that ends its worker is repeated, in a new worker, without end.
NO_HANGS := --timeout 900 --max-worker-restart 2

REQUIREMENTS := requirements.txt requirements-analysis.txt
# The stamps stand for a finished installation: with them a second `make run` installs nothing.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help venv run test test-analysis test-browser test-frameworks test-nemo test-reliability test-slurm sbom docs check format clean distclean

help: ## show available targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

run: $(RUN_STAMP) ## measure this machine, then compare; on a CPU two setups of Llama, or more: ARGS="--model all"
	@set -e; \
	options=$$($(BIN)/python tools/run_options.py); \
	set -x; \
	$(BIN)/python benchmark.py $$options $(ARGS); \
	$(BIN)/python compare_results.py

venv: $(DEV_STAMP) ## set up .venv for measuring, testing and checking

test: $(DEV_STAMP) ## run all tests
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(NO_HANGS) $(ARGS)

test-analysis: ## run the tests without PyTorch, on the oldest and the newest Python here
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON): install Python 3.10 or newer" >&2; exit 2; }
	$(PYTHON) tools/environment_tests.py analysis $(ARGS)

test-browser: $(DEV_STAMP) ## open the HTML report and the site in headless Chromium: apt-get install chromium chromium-driver
	@command -v chromedriver >/dev/null || { echo "error: there is no chromedriver: sudo apt-get install chromium chromium-driver (Debian, Ubuntu), or brew install chromium chromedriver (macOS)" >&2; exit 2; }
	@$(PYTHON) tools/make_venv.py --venv $(VENV) --groups dev browser
	$(BIN)/python -m pytest -m browser tests/browser --timeout 900 $(ARGS)

test-slurm: $(DEV_STAMP) ## submit jobs to a real Slurm on this machine (5 minutes): apt-get install slurm-wlm munge
	@command -v sbatch >/dev/null || { echo "error: there is no Slurm: sudo apt-get install slurm-wlm munge (Debian, Ubuntu)" >&2; exit 2; }
	$(BIN)/python -m pytest -m slurm --durations=10 tests/slurm --timeout 900 $(ARGS)

test-reliability: $(DEV_STAMP) ## fault-injection tests on real runs, with the oldest Lightning too (less than ten minutes)
	$(BIN)/python tools/torture.py --kind all --times 12
	$(BIN)/python tools/fuzz.py --minutes 1 --seed 0
	$(BIN)/python -m pytest -m reliability $(ARGS)
	$(BIN)/python tools/environment_tests.py lightning 2.2.5

test-nemo: ## build and train NeMo's recipes on this CPU, in .venv-nemo (2.5 GB, some minutes)
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON): install Python 3.10 or newer" >&2; exit 2; }
	$(PYTHON) tools/make_nemo_env.py --venv .venv-nemo
	.venv-nemo/bin/python -m pytest -p no:cacheprovider --durations=10 tests/with_nemo tests/record/test_lightning_callback.py \
	    tests/record/test_callback_facts.py tests/record/test_callback_endings.py $(ARGS)

docs: $(DEV_STAMP) ## build the pages of docs/ as a site, into build/site
	@$(PYTHON) tools/make_venv.py --venv $(VENV) --groups dev docs
	$(BIN)/python -m mkdocs build --strict

sbom: $(DEV_STAMP) ## write the bill of materials with all licences, build/sbom.cdx.json
	@$(PYTHON) tools/make_venv.py --venv $(VENV) --groups dev sbom
	$(BIN)/python tools/sbom.py build/sbom.cdx.json

test-frameworks: ## train the same setup in every framework that runs on a CPU, in .venv-frameworks (10 to 15 minutes on two cores)
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON): install Python 3.10 or newer" >&2; exit 2; }
	$(PYTHON) tools/environment_tests.py frameworks $(ARGS)

check: $(DEV_STAMP) ## run ruff and mypy
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	@if command -v shellcheck >/dev/null; then shellcheck -x *.sh scripts/*.sh tools/*.sh; \
	else echo "shellcheck is not installed: the shell scripts were not checked"; fi

format: $(DEV_STAMP) ## format the code with ruff
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

clean: ## remove caches and builds; results and environments stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## remove the environments too; results stay
	rm -rf $(VENV) .venv-3.* .venv-lightning-*

$(RUN_STAMP): $(REQUIREMENTS) constraints.txt tools/make_venv.py
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON): install Python 3.10 or newer" >&2; exit 2; }
	@$(PYTHON) tools/make_venv.py --venv $(VENV)
	@touch $@

$(DEV_STAMP): $(REQUIREMENTS) pyproject.toml constraints.txt tools/make_venv.py
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON): install Python 3.10 or newer" >&2; exit 2; }
	@$(PYTHON) tools/make_venv.py --venv $(VENV) --groups dev
	@touch $(RUN_STAMP) $@
