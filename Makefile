# `make demo` and `make test` each do all their own set-up, in .venv; `make test DIRECTML=no` does without the real DirectML.
PYTHON ?= python3
BIN := .venv/bin
DIRECTML ?= yes
DEMO := models/dynamo_phi_dyn.onnx

# What `make test-lowest`, `make test-wheel` and `make test-windows` run, and what lies beside the packages that it reads.
TESTS ?= tests
BESIDE := .ci tests models docs benchmarks mkdocs.yml Makefile pyproject.toml hatch_build.py LICENSE $(wildcard *.md)

# `make test LONG=yes`, as in CI, also runs tests that take seconds each, and all random cases instead of a third.
# `make unit SHUFFLE=7` runs the files, and the tests of each, in the order that 7 stands for.
SHUFFLE ?=
ORDER := $(if $(SHUFFLE),--random-order-bucket=module --random-order-seed=$(SHUFFLE))

# What `make test-lowest` leaves out: the divergences, each of which is about named versions of an engine, and the real
# DirectML, whose libraries are of one version whatever is installed here.
NOT_LOWEST := --ignore tests/test_divergences.py --ignore tests/sliceport/device

# The tests start many processes, and each would compile the packages anew where that is not kept.
export PYTHONDONTWRITEBYTECODE :=

LINTERS := lint-types lint-windows lint-ruff lint-format lint-imports lint-budgets lint-english
# What follows a linter that fails.
mend = { echo '$@ failed; to mend it: $(1)'; exit 1; }

.PHONY: demo test lint $(LINTERS) docs parts operators provider unit dist test-wheel test-lowest test-windows clean

# Modules are compiled when they are first imported: pip would compile all of them, one after the other, for 24 s.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile

.venv/pip: Makefile
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade 'pip>=25.1,<27'
	@touch $@

.venv/demo: .venv/pip pyproject.toml
	$(INSTALL) --editable '.[onnxruntime]'
	@touch $@

.venv/test: .venv/demo pyproject.toml
	$(INSTALL) --group dev
	@touch $@

# After the group above: two installations at once would write the same packages.
.venv/docs: .venv/test
	$(INSTALL) --group docs
	@touch $@

.venv/dist: .venv/pip pyproject.toml
	$(INSTALL) --group dist
	@touch $@

.venv/lowest: .venv/pip pyproject.toml
	$(INSTALL) --group lowest
	@touch $@

# DirectML's validator is installed where this machine can have it: 25 MB in your cache, 5 seconds.
demo: .venv/demo
	$(BIN)/sliceport directml install --validator --if-possible
	$(BIN)/sliceport check $(DEMO) --fail-on invalid
	$(BIN)/sliceport lower $(DEMO) --input-shapes x:1,16 -v
	$(BIN)/sliceport compare $(DEMO) --input-shapes x:1,16

# DirectML is downloaded, and C++ compiled, while pip installs. Linters and the tests start once pip is done (AFTER), and the
# tests once all is there; they end last, so that errors of linters and pages stand above their results.
test: .venv/demo
	$(MAKE) --jobs=4 provider unit lint docs AFTER=.venv/docs

# All linters run before it fails, and one that fails says what mends it.
lint: .venv/test $(AFTER)
	@$(MAKE) --keep-going --no-print-directory $(LINTERS)

lint-types: .venv/test
	$(BIN)/mypy

# What Windows runs, in a cache of its own, as two runs at once would write the same files.
lint-windows: .venv/test
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 sliceport onnx_ops ov_ext

lint-ruff: .venv/test
	@$(BIN)/ruff check . || $(call mend,run $(BIN)/ruff check --fix . and edit what is left)

lint-format: .venv/test
	@$(BIN)/ruff format --check . || $(call mend,run $(BIN)/ruff format .)

lint-imports: .venv/test
	@$(BIN)/lint-imports --no-cache || $(call mend,see "Who may import whom" in ARCHITECTURE.md)

lint-budgets: .venv/test
	$(BIN)/python .ci/check_budgets.py

lint-english: .venv/test
	@$(BIN)/python .ci/check_english.py || $(call mend,see "English" in CONTRIBUTING.md)

# The pages, into build/site: any warning fails it, and it needs no network. The variable leaves out an announcement.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The operators in C++, and the real DirectML, are part of the tests wherever the machine can have them: built and
# installed once, into the user's cache.
parts: operators provider

operators: .venv/test
	$(BIN)/python -m ov_ext.native build --if-possible

provider: .venv/demo
ifneq ($(DIRECTML),no)
	@echo "The real DirectML is installed into your cache next, where this machine can have it: once, 0.4 GB, 1 minute."
	@echo "make test DIRECTML=no does without."
	$(BIN)/sliceport directml install --if-possible
endif

unit: .venv/test parts $(AFTER)
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ORDER)
ifeq ($(DIRECTML),no)
	@echo "DIRECTML=no: nothing was installed; tests of the real DirectML ran only if it had been before (see the skipped ones)."
endif

# The sdist, and of it a pure wheel and, where there is a compiler, one with the operators in C++ for this platform; what
# is in them; whether their description and metadata are such as an index takes.
dist: .venv/dist
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(if $(shell command -v c++),SLICEPORT_NATIVE=yes $(BIN)/python -m build --quiet --wheel)
	$(BIN)/python .ci/check_dist.py dist
	$(BIN)/python -m twine check --strict dist/*

# The wheel, installed where its source is not: that for this platform, where there is one.
test-wheel: dist
	rm -rf build/wheel && mkdir -p build/wheel
	cp -r $(BESIDE) build/wheel
	$(PYTHON) -m venv build/wheel/.venv
	build/wheel/.venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1,<27'
	build/wheel/.venv/bin/python -m pip install --quiet --no-deps --no-index --find-links dist sliceport
	build/wheel/.venv/bin/python -m pip install --quiet 'sliceport[onnxruntime]' --group dev
	cd build/wheel && LONG=yes .venv/bin/python -m pytest -n 2 --dist worksteal $(ORDER) $(TESTS)

# The oldest versions that pyproject.toml allows, on PYTHON.
test-lowest: .venv/lowest
	rm -rf build/lowest && mkdir -p build/lowest
	$(PYTHON) -m venv build/lowest/.venv
	VIRTUAL_ENV=build/lowest/.venv $(BIN)/uv pip install --quiet --resolution lowest-direct '.[onnxruntime,openvino,batch,fsspec,dask]'
	VIRTUAL_ENV=build/lowest/.venv $(BIN)/uv pip install --quiet --group test
	VIRTUAL_ENV=build/lowest/.venv $(BIN)/uv pip list
	cp -r $(BESIDE) build/lowest
	cd build/lowest && LONG=yes .venv/bin/python -m pytest -n 2 --dist worksteal $(ORDER) $(NOT_LOWEST) $(TESTS)

# The commands and the suite, by a CPython for Windows in Wine, which lies in the user's cache: 2.1 GB with the compiler.
test-windows: .venv/test provider
	$(BIN)/python tests/support/of_processes/mingw.py
	$(BIN)/python tests/support/of_processes/windows_python.py make
	$(BIN)/python tests/support/of_processes/windows_python.py run tests/windows/commands.py
	$(BIN)/python tests/support/of_processes/windows_python.py run -m pytest $(TESTS)

clean:
	rm -rf .venv build dist
