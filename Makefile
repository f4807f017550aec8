# Every target does its whole set-up from a bare clone that has Rust, Python 3.11 or newer, pip and gcc, in a virtual
# environment of its own (.venv), and leaves a stamp so that the second time is quick.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# The first interpreter that is new enough; PYTHON=... on the command line wins.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)

VENV := $(abspath .venv)
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export VIRTUAL_ENV := $(VENV)
# The extension's build scripts look for the interpreter here.
export PYO3_PYTHON := $(BIN)/python
unexport PYTHONPATH
# What maturin tells those build scripts. clippy tells them the same, so that the next build compiles nothing again.
AS_MATURIN := env PYO3_BUILD_EXTENSION_MODULE=1 $$(for file in $(CURDIR)/target/maturin/pyo3-config-*.txt; do \
	if test -e "$$file"; then echo "PYO3_CONFIG_FILE=$$file"; break; fi; done)
# mpiexec of the mpi extra stands in the environment too.
PYTEST := PATH="$(BIN):$$PATH" $(BIN)/python -m pytest

RUST := Cargo.toml Cargo.lock pyproject.toml $(shell find rust -name '*.rs' -o -name Cargo.toml -o -name '*.inc')
# The whole workspace is named so that features are resolved as they are for the wheel, and faer is compiled once; the
# extension module itself has no Rust tests.
CARGO_TEST := cargo test --locked --release --workspace --quiet

.PHONY: help demo test test-slow dev bench bench-quick bench-peers lint docs wheel clean

help:
	@echo "make demo       the Ising sweep over lanes: table, and build/ising_trg.png"
	@echo "make test       every test but the slow ones; make test-slow runs those"
	@echo "make dev        the package, editable, in .venv"
	@echo "make lint       formatting, lints, types, stubs, workflows"
	@echo "make docs       the pages, in docs/_build/html"
	@echo "make bench      the comparison with other packages, written to docs/performance.md; with torch, JAX and pytblis"
	@echo "                after make bench-peers, which installs them apart (2 GB)"
	@echo "make wheel      a wheel in build/wheels"
	@echo "make clean      removes what all of these made"

# --- set-up -------------------------------------------------------------------------------------------------------

$(STAMPS)/venv:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; PYTHON=/path/to/python names one" >&2; exit 1; }
	@echo "making .venv; pip installs maturin there"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "maturin>=1.9,<2"
	@mkdir -p $(STAMPS) && touch $@

# The packages of one extra of pyproject.toml ("run" is what the package itself needs).
$(STAMPS)/packages-%: pyproject.toml .ci/requirements.py $(STAMPS)/venv
	@echo "pip installs what '$*' of pyproject.toml needs"
	$(BIN)/python .ci/requirements.py $* > $(STAMPS)/$*.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(STAMPS)/$*.txt
	@touch $@

$(STAMPS)/native: $(RUST) $(STAMPS)/venv $(STAMPS)/packages-run
	@echo "compiling the core; the first time takes some minutes"
	@# pip would list every package of the extras as ignored; warnings and errors stay.
	PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/maturin develop --release
	@touch $@

dev: $(STAMPS)/native

# --- what people run ----------------------------------------------------------------------------------------------

demo: $(STAMPS)/packages-demo $(STAMPS)/native
	@mkdir -p build
	$(BIN)/python docs/examples/ising_trg.py --output build/ising_trg.png

test: $(STAMPS)/packages-test $(STAMPS)/packages-mpi $(STAMPS)/packages-demo $(STAMPS)/native
	$(CARGO_TEST)
	$(PYTEST)

test-slow: $(STAMPS)/packages-test $(STAMPS)/packages-mpi $(STAMPS)/packages-demo $(STAMPS)/native
	$(CARGO_TEST) -- --ignored
	$(PYTEST) -m slow || test $$? -eq 5  # 5: no test is marked slow
	bash .ci/asan

lint: $(STAMPS)/packages-lint $(STAMPS)/packages-test $(STAMPS)/packages-mpi $(STAMPS)/packages-demo $(STAMPS)/native
	cargo fmt --all --check
	$(AS_MATURIN) cargo clippy --locked --release --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/stubs.py
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet --no-progress --min-severity medium .github/workflows

docs: $(STAMPS)/packages-docs $(STAMPS)/native
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(STAMPS)/packages-test $(STAMPS)/native
	$(BIN)/python benches/peers/run.py

bench-quick: $(STAMPS)/packages-test $(STAMPS)/native
	$(BIN)/python benches/peers/run.py --quick

# Peers that are too large for the environment above have one of their own; without it they are left out.
PEERS := benches/peers/.venv

bench-peers: $(PEERS)/stamp

$(PEERS)/stamp: benches/peers/requirements.txt benches/peers/torch_without_cuda.py
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; PYTHON=/path/to/python names one" >&2; exit 1; }
	@echo "pip installs torch, JAX and pytblis in $(PEERS)"
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r benches/peers/requirements.txt
	$(PEERS)/bin/python benches/peers/torch_without_cuda.py
	@touch $@

wheel: $(STAMPS)/venv
	rm -rf build/wheels
	$(BIN)/maturin build --release --out build/wheels

clean:
	rm -rf .venv build target $(PEERS) benches/peers/native/target docs/_build .pytest_cache .mypy_cache .ruff_cache python/treadle/_native*.so
	find python tests benches docs -name __pycache__ -type d -prune -exec rm -rf {} +
