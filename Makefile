# Two commands for a bare clone: `make demo` and `make test`. Both make .venv once, from the constraints.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TESTING := $(VENV)/.testing

.PHONY: demo test test-all breaks soak packages figure pictures docs lint bench
.DELETE_ON_ERROR:

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; give one with make PYTHON=/path/to/python" >&2; exit 2; }
	@echo "setting up $(VENV) with $(PYTHON) (once; torch is a large download)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# What tests need beside: linters, browsers' driver, every extra.
$(TESTING): $(INSTALLED)
	@echo "adding what tests need to $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# DEMO takes further settings, for instance: make demo DEMO="run.rounds=20"
demo: $(INSTALLED)
	@$(BIN)/airfl compare experiments/configs/demo.toml $(DEMO) --out runs/demo-$$(date +%Y%m%d-%H%M%S)-$$$$

# TESTS takes pytest's words, for instance: make test TESTS="tests/laws --costs"
WORKERS := auto
# Compiled modules are kept, whatever the environment says: hundreds of processes import them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
test: $(TESTING)
	@$(PYTEST) -m "not full" $(TESTS)

# Everything: tests marked full, the reliability tests and every extra in full, 10,000 rounds.
test-all: $(TESTING)
	@AIRFL_SOAK=1 AIRFL_PACKAGING=1 $(PYTEST) $(TESTS)
	@$(BIN)/python experiments/soak.py

# Deliberate bugs, one at a time in a copy: does a test find each? Minutes; BREAKS takes kinds: make breaks BREAKS=privacy
breaks: $(TESTING)
	@$(BIN)/python -m tests.breaks $(BREAKS)

# The reliability tests in full, and 10,000 rounds. Figures are printed at the end.
soak: $(TESTING)
	@AIRFL_SOAK=1 $(PYTEST) tests/reliability tests/unit/test_privacy_brackets.py
	@$(BIN)/python experiments/soak.py

# Every extra in a fresh environment, from the package index: about twenty minutes.
packages: $(TESTING)
	@AIRFL_PACKAGING=1 $(BIN)/python -m pytest tests/packaging -rP --durations=0

# The README's figure and table: the demo over three seeds.
figure: $(INSTALLED)
	@$(BIN)/airfl compare experiments/configs/demo.toml --seeds 3 --out runs/figure-$$(date +%Y%m%d-%H%M%S) --copy-to docs

# The pictures of docs/figures.md, by the commands on that page; a quarter of an hour on two cores.
pictures: $(INSTALLED)
	@$(BIN)/python experiments/pictures.py docs/figures.md --jobs 2

# The documentation as site/index.html; a warning ends it.
docs: $(TESTING)
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs site
	@echo "written: site/index.html"

lint: $(TESTING)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# BENCH takes some of them, for instance: make bench BENCH=experiments/benchmarks/rounds.py
BENCH := $(filter-out %/machine.py %/scaling.py %/gpu.py, $(wildcard experiments/benchmarks/*.py))
bench: $(INSTALLED)
	@for script in $(BENCH); do echo "$$script"; $(BIN)/python $$script || exit 1; echo; done
