# Everything a checkout needs, from Python 3.11+ and make alone. Each target sets up what it uses.
#
#   make fit     fit the width-depth-tokens law to the Chinchilla runs; writes chinchilla.png
#   make test    run every test, one worker a core
#   make lint    style, types, layers
#   make docs    build the documentation into docs/_build/html
#   make bench   compare speed with other tools' methods, in one run
#   make wheel   build the wheel, install it into a fresh environment, run the fast tests on it
#   make mutate  put 100 small bugs into each room of the numeric core, list those that no test notices (an hour)
#   make fuzz    set the solver against 60 starts of SciPy each on 500 random tables (half an hour)
#   make coverage  measure whether intervals hold the truth, on 400 tables of each design (10 minutes)
#   make data    rebuild the reconstructed table and compare it with the shipped one

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One BLAS thread a process: processes are the parallelism, and the same sums come out on every machine.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.PHONY: fit test lint docs bench mutate fuzz coverage wheel data clean
.DELETE_ON_ERROR:

fit: $(VENV)/ready-core
	$(BIN)/scalefit fit chinchilla --drop-worst 40 --plot chinchilla.png --force

test: $(VENV)/ready-all
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/ready-all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/ready-all
	rm -rf docs/reference/api
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/ready-all
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

mutate: $(VENV)/ready-all
	$(BIN)/python tests/mutation --sample 100

fuzz: $(VENV)/ready-all
	$(BIN)/python -W ignore benchmarks/fuzz_solver.py 500

coverage: $(VENV)/ready-all
	$(BIN)/python tests/coverage_matrix.py --jobs 2

data: $(VENV)/ready-core
	$(BIN)/python data/chinchilla.py | cmp - data/chinchilla.csv

wheel:
	PYTHON=$(PYTHON) .ci/test-wheel

clean:
	rm -rf .venv build dist docs/_build docs/reference/api chinchilla.png

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready-core: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -e .
	touch $@

$(VENV)/ready-all: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -e '.[toy,excel,parquet,test,lint,docs]'
	touch $@ $(VENV)/ready-core
