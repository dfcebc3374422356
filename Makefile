# `make demo` and `make test` each do all their own set-up, in .venv.
PYTHON ?= python3
BIN := .venv/bin
DEMO := models/dynamo_phi_dyn.onnx --input-shapes x:1,16

.PHONY: demo test lint unit clean

.venv/pip: Makefile
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1,<27'
	@touch $@

.venv/demo: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[onnxruntime]'
	@touch $@

.venv/test: .venv/demo pyproject.toml
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

demo: .venv/demo
	$(BIN)/sliceport lower $(DEMO) -v
	$(BIN)/sliceport compare $(DEMO)

test: lint unit

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The real DirectML is part of the tests wherever the machine can have it: installed once, into the user's cache.
unit: .venv/test
	$(BIN)/sliceport directml install --if-possible
	$(BIN)/python -m pytest -n 2

clean:
	rm -rf .venv
