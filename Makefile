# `make demo` and `make test` each do all their own set-up, in .venv; `make test DIRECTML=no` does without the real DirectML.
PYTHON ?= python3
BIN := .venv/bin
DIRECTML ?= yes
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
ifneq ($(DIRECTML),no)
	@echo "The real DirectML is installed into your cache next, where this machine can have it: once, 0.5 to 3.3 GB."
	@echo "make test DIRECTML=no does without."
	$(BIN)/sliceport directml install --if-possible
endif
	$(BIN)/python -m pytest -n 2
ifeq ($(DIRECTML),no)
	@echo "DIRECTML=no: nothing was installed; tests of the real DirectML ran only if it had been before (see the skipped ones)."
endif

clean:
	rm -rf .venv
