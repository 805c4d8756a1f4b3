# make reproduce   the tiny run, from generated problems to the main table (RUN=name for another, GO=1 to start an expensive one)
# make test        the test suite
# make test-faults       kills and damages real runs
# make test-reproduced   looks at the tiny run that was made, and at what its stages took
# make lint        formatting, types, the workflow's style
# make env         the locked environment in .venv, which every other target builds first
# make lock        renews the lock file from pyproject.toml
RUN ?= tiny
GO ?=
PYTHON ?= python3
export TORCH_INDEX ?=

VENV := .venv
# The environment is built again when the lock or the package's metadata changes.
READY := $(VENV)/.ready-$(shell cat envs/cpu.lock envs/cpu.sh pyproject.toml | cksum | tr ' ' '-')

.PHONY: help env reproduce test test-faults test-reproduced lint lock
help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(READY):
	@PYTHON=$(PYTHON) envs/cpu.sh
	@rm -f $(VENV)/.ready-*
	@touch $@

env: $(READY)

# Triton: 200 MB that nothing but tests of its kernels needs on a machine without a GPU.
TEST_READY := $(VENV)/.test-ready-$(shell cat envs/test.lock | cksum | tr ' ' '-')
$(TEST_READY): $(READY)
	@$(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r envs/test.lock
	@touch $@

reproduce: $(READY)
	@$(VENV)/bin/stair reproduce --run $(RUN) $(if $(GO),--go)

test: $(READY) $(TEST_READY)
	$(VENV)/bin/python -m pytest -m "not faults and not reproduced" -n 2 --dist loadgroup

test-faults: $(READY)
	$(VENV)/bin/python -m pytest -m faults

test-reproduced: $(READY)
	$(VENV)/bin/python -m pytest -m reproduced
	$(VENV)/bin/stair budget --run results/tiny --against docs/budget.md

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/snakefmt --check Snakefile workflow/rules
	$(VENV)/bin/snakemake --lint

lock: $(READY)
	echo "torch==2.13.0; sys_platform == 'none'" > $(VENV)/no-torch.txt
	$(VENV)/bin/uv pip compile pyproject.toml --extra pipeline --extra dev --universal --python-version 3.11 --generate-hashes \
	  --override $(VENV)/no-torch.txt --no-header --no-annotate --no-emit-index-url --quiet -o envs/cpu.lock
	$(VENV)/bin/python envs/trim_lock.py envs/cpu.lock
	echo "# What only tests need: kernels are compiled, and run in Triton's interpreter, without a GPU; made by \`make lock\`." > envs/test.lock
	echo "triton==3.7.1; sys_platform == 'linux' and platform_machine == 'x86_64'" | $(VENV)/bin/uv pip compile - --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet >> envs/test.lock
