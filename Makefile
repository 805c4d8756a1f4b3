# make reproduce        the tiny run, from generated problems to tables and claims. RUN=<run>: another
#                       run, by its name or overlay; GO=1 starts an expensive one; with
#                       ENGINE=sglang, SGLang generates the training responses
# make paper            tables and figures of a finished run as one PDF (RUN=<run>; needs pdfLaTeX)
# make archive          a finished run as one file, for publication (RUN=<run>, OUT=<file>)
# make from-archive     every table and figure of an archive, without a model or network (FILE=<file>)
# make env              the locked environment in .venv; DEVICE=cuda: for NVIDIA GPUs. All targets
#                       but gpu and sglang-env build it first
# make sglang-env       the locked environment of SGLang's server in .venv-sglang-<device>
#                       (DEVICE=cpu or cuda; by default cuda on a machine with a GPU)
# make gpu              tests and measurements on one GPU, in 14 minutes, with the torch of PYTHON;
#                       writes benchmarks/gpu.md (PARTS="read decode", MINUTES=5, OUT=<file>)
#
# For developers:
# make lint             formatting, types, imports, the workflow's style; prints the lines of code
# make test             the test suite
# make test-workflow    whole small runs: the graph, changes, reuse, verification
# make test-faults      kills and damages real runs
# make test-reproduced  compares the finished tiny run with docs/tiny.md
# make test-mutants     faults put into a copy of the project, which tests must find
#                       (ONLY=<name or file>, WORKERS, RECORD=1; CONTRIBUTING.md)
# make test-sglang      the real SGLang server: equality, faults, a whole shard
# make test-slurm       the smoke run on a real Slurm cluster on this machine (as root; installs
#                       Debian's Slurm)
# make lock             renews the lock file of the CPU environment from pyproject.toml
# make lock-cuda        renews that of the CUDA environment, after make lock
# make lock-sglang      renews those of SGLang's server
RUN ?= tiny
GO ?=
ENGINE ?=
PYTHON ?= python3
export TORCH_INDEX ?=
export FLASH_ATTN_WHEEL ?=
export CAUSAL_CONV1D_WHEEL ?=

# One word for the shell, whatever it contains.
quoted = '$(subst ','\'',$(1))'
# Empty if a switch such as GO is 0, no or false.
on = $(filter-out 0 no No NO false False FALSE,$(1))

VENV := .venv
# The device of the pipeline's environment: DEVICE of `make env`, else the one that it was built for.
BUILT := $(shell cat $(VENV)/.device 2>/dev/null || echo cpu)
ENV_DEVICE := $(if $(filter env,$(MAKECMDGOALS)),$(or $(DEVICE),$(BUILT)),$(BUILT))
# A moved or copied project builds its own environment, whose programs name the folder.
READY := $(VENV)/.ready-$(ENV_DEVICE)-$(shell pwd -P | cksum | tr ' ' '-')

.PHONY: help env sglang-env reproduce paper archive from-archive gpu test test-faults test-mutants test-sglang test-slurm test-reproduced \
  test-workflow lint lock lock-cuda lock-sglang
help:
	@sed -n '/^RUN/q; s/^# \{0,1\}//p' Makefile

$(READY): $(wildcard envs/$(ENV_DEVICE).lock) envs/pipeline.sh pyproject.toml grader/pyproject.toml
	@PYTHON=$(call quoted,$(PYTHON)) DEVICE=$(ENV_DEVICE) envs/pipeline.sh
	@rm -f $(VENV)/.ready-*
	@echo $(ENV_DEVICE) > $(VENV)/.device
	@touch $@

env: $(READY)
	@echo "Ready: the $(ENV_DEVICE) environment in $(VENV). Next: make reproduce"

# SGLang's server pins other versions than the pipeline, so it has its own environment.
# Each device has one, so that tests on the CPU do not rebuild the GPU's.
GPU_DEVICE := $(or $(DEVICE),cuda)
DEVICE ?= $(shell nvidia-smi >/dev/null 2>&1 && echo cuda || echo cpu)
.venv-sglang-%/.ready: envs/sglang-%.lock envs/sglang.sh $(wildcard envs/sglang_plain_cpu/*)
	@PYTHON=$(call quoted,$(PYTHON)) DEVICE=$* FOLDER=.venv-sglang-$* envs/sglang.sh
	@touch $@

# An unescaped colon would make this line another rule.
sglang-env: .venv-sglang-$(subst :,\:,$(DEVICE))/.ready

# Triton has 200 MB. Without a GPU, only the tests of its kernels need it. TRL and its data sets have 2 MB.
$(VENV)/.test-ready: envs/test.lock $(READY)
	@$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python --no-deps --require-hashes -r envs/test.lock
	@touch $@

# The run's configuration names the device of the server's environment.
reproduce: $(READY)
ifeq ($(ENGINE),sglang)
	@device=$$($(VENV)/bin/stair config --run $(call quoted,$(RUN)) --key sglang.device) && $(MAKE) --no-print-directory sglang-env DEVICE=$$device
endif
	@$(VENV)/bin/stair reproduce --run $(call quoted,$(RUN)) $(if $(call on,$(GO)),--go) $(if $(ENGINE),--set 'rollouts={engine: $(ENGINE)}')

paper: $(READY)
	@$(VENV)/bin/stair paper --run $(call quoted,$(RUN))

archive: $(READY)
	@$(VENV)/bin/stair export --run $(call quoted,$(RUN)) $(if $(OUT),--out $(call quoted,$(OUT)))

# The archive names its run; RUN names the overlay where that is a file of the user.
from-archive: $(READY)
	$(if $(FILE),,$(error name the archive: make from-archive FILE=file))
	@$(VENV)/bin/stair from-archive $(call quoted,$(FILE)) $(if $(findstring command,$(origin RUN)),--run $(call quoted,$(RUN)))

# A worker runs whole files, so that each makes its fixtures once. In the order of the names, small files
# come last, and the workers end together.
test: $(READY) $(VENV)/.test-ready
	$(VENV)/bin/python -m pytest --ignore=tests/workflow -m "not faults and not reproduced and not sglang and not slurm" -n 2 --dist loadfile --no-loadscope-reorder

# The smoke run, which tests copy, is made once and kept in .pytest_cache until the commit or the environment changes.
test-workflow: $(READY)
	$(VENV)/bin/python -m pytest tests/workflow -m "not faults and not sglang" -n 2 --dist loadfile

# Servers load both processors, so these tests run one after another.
test-sglang: $(READY) .venv-sglang-cpu/.ready
	$(VENV)/bin/python -m pytest -m sglang

# Two runs use one cluster at the same time. The cluster has its own mount namespace and changes no cluster of the machine.
test-slurm: $(READY)
	@envs/debian.sh slurm
	STAIR_REQUIRE_PROGRAMS=1 $(VENV)/bin/python -m pytest -m slurm tests/slurm

# Builds no environment, because a machine with a GPU has its own torch. DEVICE=cpu runs small shapes. A missing GPU is an
# error, whatever nvidia-smi reports.
gpu:
	@$(call quoted,$(PYTHON)) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: %s is Python %s, expected 3.11 or later; name another \
	interpreter with PYTHON=" % (sys.executable, sys.version.split()[0]))'
	@$(call quoted,$(PYTHON)) -m benchmarks.gpu --device "$(GPU_DEVICE)" $(if $(OUT),--out $(call quoted,$(OUT))) $(if $(MINUTES),--minutes "$(MINUTES)") $(if $(PARTS),--only $(PARTS))

# In the order of the names, the tests that run for minutes come first.
test-faults: $(READY)
	$(VENV)/bin/python -m pytest -m faults tests/faults tests/training -n 2 --dist loadfile --no-loadscope-reorder

test-reproduced: $(READY)
	$(VENV)/bin/python -m pytest -m reproduced

# Takes an hour, so it is for changes of tests and not for every commit.
test-mutants: $(READY)
	$(VENV)/bin/python tests/mutants/run.py $(if $(ONLY),--only $(call quoted,$(ONLY))) $(if $(WORKERS),--workers "$(WORKERS)") $(if $(call on,$(RECORD)),--record)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(VENV)/bin/snakefmt --check Snakefile workflow/rules
	@find stair grader/answer_grader workflow/rules -name "*.py" -o -name "*.smk" | xargs wc -l | \
	  awk '$$2 != "total" {split($$2, part, "/"); name = part[1] "/" part[2]; lines[name] += $$1} END {for (name in lines) print lines[name], name}' | sort -rn

COMPILE := $(VENV)/bin/uv pip compile --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet
# Takes torch out of a lock: its own step installs the build that fits the machine.
WITHOUT_TORCH := sed '/^torch==/,/[^\\]$$/d'
lock: $(READY)
	$(COMPILE) pyproject.toml --extra pipeline --extra dev --universal --python-version 3.11 --override envs/no-torch.txt -o envs/cpu.lock
	$(WITHOUT_TORCH) -i envs/cpu.lock
	echo "# What only tests need: Triton for kernels without a GPU, TRL for the grader's reward; made by \`make lock\`." > envs/test.lock
	$(COMPILE) envs/test.in --no-deps --universal --python-version 3.11 >> envs/test.lock

# The versions of the CPU's lock, so that both environments compute with the same packages.
lock-cuda: $(READY)
	echo "# The CUDA environment (Linux, x86-64), made by \`make lock-cuda\` from pyproject.toml and envs/cuda.in." > envs/cuda.lock
	$(COMPILE) pyproject.toml envs/cuda.in --extra pipeline --extra dev --config-file envs/cuda-uv.toml \
	  --constraint envs/cpu.lock --universal --python-version 3.11 >> envs/cuda.lock

lock-sglang: $(READY)
	echo "# SGLang's server on a CPU, made by \`make lock-sglang\` from envs/sglang-cpu.in; torch is installed by its own step (envs/sglang.sh)." > envs/sglang-cpu.lock
	$(COMPILE) envs/sglang-cpu.in --universal --python-version 3.11 --override envs/no-torch.txt | $(WITHOUT_TORCH) >> envs/sglang-cpu.lock
	printf 'sglang==0.5.23\ntorchvision==0.15.2\n' | $(COMPILE) - --no-deps >> envs/sglang-cpu.lock
	echo "# SGLang's server on NVIDIA GPUs (Linux, x86-64, Python 3.11), made by \`make lock-sglang\`: what SGLang itself asks for." > envs/sglang-cuda.lock
	echo "sglang==0.5.23" | $(COMPILE) - --python-version 3.11 --python-platform x86_64-manylinux_2_34 >> envs/sglang-cuda.lock
