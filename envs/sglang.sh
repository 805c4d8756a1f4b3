#!/usr/bin/env bash
# Builds the locked environment of SGLang's server, apart from the pipeline's. Called by make; safe to call again.
#   DEVICE       cpu or cuda (default: cuda where nvidia-smi runs, else cpu)
#   FOLDER       where it goes, default .venv-sglang-$DEVICE
#   PYTHON       the interpreter, default python3
#   TORCH_INDEX  a package index to take torch from, for example one with CPU-only builds (DEVICE=cpu)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if [ -z "${DEVICE:-}" ]; then
  if nvidia-smi >/dev/null 2>&1; then DEVICE=cuda; else DEVICE=cpu; fi
fi
folder=${FOLDER:-.venv-sglang-$DEVICE}
torch=2.13.0

case $(uname -sm) in
  "Linux x86_64") ;;
  *)
    echo "error: SGLang's server is locked for Linux on x86-64 only; elsewhere use the Transformers engine (rollouts.engine)" >&2
    exit 2
    ;;
esac
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || {
  echo "error: '$python' does not run; name another: make PYTHON=python3.11" >&2
  exit 2
}
case $DEVICE:$version in
  cpu:3.11 | cpu:3.12 | cpu:3.13 | cuda:3.11) ;;
  cuda:*)
    echo "error: $python is Python $version; SGLang's GPU environment is locked for 3.11: make PYTHON=python3.11" >&2
    exit 2
    ;;
  *)
    echo "error: DEVICE=$DEVICE with Python $version; DEVICE is cpu or cuda, Python 3.11 to 3.13" >&2
    exit 2
    ;;
esac

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }

if [ "$DEVICE" = cuda ]; then
  echo "Installing SGLang's server for NVIDIA GPUs (envs/sglang-cuda.lock, about 10 GB)"
  pip install --quiet --no-deps --require-hashes -r envs/sglang-cuda.lock
else
  if [ "$("$folder/bin/python" -c 'from importlib.metadata import version; print(version("torch").split("+")[0])' 2>/dev/null)" != "$torch" ]; then
    echo "Installing torch $torch (a CPU build is enough; pip's default for Linux brings CUDA, TORCH_INDEX names another index)"
    if [ -n "${TORCH_INDEX:-}" ]; then
      pip install --quiet "torch==$torch" --index-url "$TORCH_INDEX"
    else
      pip install --quiet "torch==$torch"
    fi
  fi
  echo "Installing SGLang's server for a CPU (envs/sglang-cpu.lock, about 1 GB)"
  pip install --quiet --no-deps --require-hashes -r envs/sglang-cpu.lock
  pip install --quiet --no-deps --no-build-isolation ./envs/sglang_plain_cpu
  rm -rf envs/sglang_plain_cpu/build envs/sglang_plain_cpu/*.egg-info
fi
