# Needs Python >= 3.11, make and a package index; everything else goes into .venv.
#   make demo         install and run the main job
#   make test         install, lint, type-check, whole test suite
#   make docs         the site, into build/site
#   make package      a wheel and a source distribution, into dist
#   make attack       ten minutes of random programs, hostile texts and files, odd models and kills
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# --no-compile: only what is imported gets compiled, at its first import, which halves the time of an installation.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile -c constraints.txt

# Waiting threads that spin take the cores from whatever else runs on a small machine.
export OMP_WAIT_POLICY ?= PASSIVE

# Where the environment forbids byte code, as in many containers, every start of Python would compile torch anew: 10 s.
export PYTHONDONTWRITEBYTECODE :=

# Two processes, a file of tests at a time; each computes with one thread. Much of the long tests is waiting.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

.PHONY: venv demo test test-quick readme docs package lint chromium train accuracy bench attack clean

# Two steps, each done again only when pyproject.toml or constraints.txt changes: what looprop needs, and what its tests need.
venv: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "looprop needs Python >= 3.11, got " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	# What is used is compiled here and now: where the environment forbids byte code, nothing would be compiled later.
	$(BIN)/looprop explain "a good film" >/dev/null
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/looprop demo

lint: venv
	$(BIN)/ruff check
	$(BIN)/mypy

test: lint chromium
	$(PYTEST)

test-quick: venv
	$(PYTEST) -m "not slow and not ray and not browser"

# The browser tests need a Chromium. Where it cannot be installed they are skipped, and pytest says so at the end.
chromium:
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "installing chromium for the browser tests"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 \
			|| echo "chromium could not be installed: the browser tests will be skipped"; \
	fi

# Trains the embedded models anew. Needs the data sets in LOOPROP_DATA.
train: venv
	$(BIN)/python -m training

# Accuracy of the embedded model on dev and test, as its card says. Needs the data sets in LOOPROP_DATA.
accuracy: venv
	$(BIN)/python -m training.evaluate

# What README says of the methods, and the figures measured in the runs kept under results/.
readme: venv
	$(BIN)/python -m benchmarks.trust
	$(BIN)/python tests/readme_figures.py
	$(BIN)/python tests/results_tables.py

# The site, with search and API reference, into build/site; fails on any warning and on any dead link.
docs: venv
	OMP_NUM_THREADS=1 $(BIN)/python -m website

# A wheel and a source distribution, into dist.
package: venv
	$(BIN)/python -m build

bench: venv
	$(BIN)/python -m benchmarks

# Fresh seeds every time; a finding is printed with the command that shows it again.
attack: venv
	OMP_NUM_THREADS=1 $(BIN)/python -m attacks

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
