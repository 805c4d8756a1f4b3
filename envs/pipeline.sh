#!/usr/bin/env bash
# Builds the locked environment of the pipeline in .venv. Called by make; safe to call again.
#   DEVICE       cpu (default), or cuda: Linux on x86-64 with NVIDIA GPUs
#   PYTHON       the interpreter (3.11 to 3.13), default python3
#   TORCH_INDEX  a package index to take torch from: one with CPU-only builds, or with builds for an older CUDA
#   FLASH_ATTN_WHEEL, CAUSAL_CONV1D_WHEEL   (cuda) addresses or files of prebuilt wheels; see envs/kernels.sh
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONPATH PYTHONHOME # packages elsewhere would count as installed

python=${PYTHON:-python3}
device=${DEVICE:-cpu}
torch=2.13.0

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || {
  echo "error: '$python' does not run; install Python 3.11, 3.12 or 3.13, or name it: make PYTHON=python3.12" >&2
  exit 2
}
case $version in
  3.11 | 3.12 | 3.13) ;;
  *)
    echo "error: $python is Python $version; this project needs 3.11, 3.12 or 3.13: make PYTHON=python3.12" >&2
    exit 2
    ;;
esac
case $device:$(uname -sm) in
  cpu:* | "cuda:Linux x86_64") ;;
  cuda:*)
    echo "error: the CUDA environment is locked for Linux on x86-64, and this is $(uname -sm); use make env DEVICE=cpu" >&2
    exit 2
    ;;
  *)
    echo "error: DEVICE=$device; expected cpu or cuda: make env DEVICE=cuda" >&2
    exit 2
    ;;
esac

case $(grep '^command = ' .venv/pyvenv.cfg 2>/dev/null) in
  "" | *" $(pwd -P)/.venv") ;;
  *)
    echo "The environment in .venv was built for another folder, whose code its programs run: building it again"
    rm -rf .venv
    ;;
esac
[ -x .venv/bin/python ] || "$python" -m venv .venv
# --no-compile: two thirds of the modules are never imported; envs/precompile.py compiles the others.
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
# The CUDA that the installed torch is built for, after its version; nothing if that is not the locked version.
installed_torch() {
  .venv/bin/python - "$torch" <<'PYTHON' 2>/dev/null || true
import runpy, sys
from importlib.metadata import distribution
found = distribution("torch")
assert found.version.split("+")[0] == sys.argv[1]
print(runpy.run_path(str(found.locate_file("torch/version.py")))["cuda"] or "cpu")
PYTHON
}

lock=envs/$device.lock
others=()
build=$(installed_torch)
if [ "$device" = cuda ]; then
  others=(flash-attn causal-conv1d) # envs/kernels.sh
  if [ -n "${TORCH_INDEX:-}" ]; then
    # Another build of torch brings libraries of its own CUDA.
    others+=(torch triton 'nvidia-*' 'cuda-*')
    if [ "$build" = cpu ] || [ -z "$build" ]; then
      echo "Installing torch $torch with its CUDA libraries from $TORCH_INDEX (about 3 GB)"
      pip install --quiet --no-compile --force-reinstall "torch==$torch" --index-url "$TORCH_INDEX"
    fi
  elif [ "$build" = cpu ]; then
    pip uninstall --quiet --yes torch # pip and uv accept a CPU build for the locked version
  fi
  echo "Installing the locked packages ($lock, about 3.5 GB with torch and its CUDA libraries)"
else
  if [ -z "$build" ]; then
    if [ -n "${TORCH_INDEX:-}" ]; then
      echo "Installing torch $torch from $TORCH_INDEX"
      pip install --quiet --no-compile "torch==$torch" --index-url "$TORCH_INDEX"
    else
      echo "Installing torch $torch: about 200 MB as a CPU build; pip's default build for Linux brings some 3 GB of CUDA libraries."
      echo "(For a CPU-only build, stop and run again with TORCH_INDEX=<address of an index of CPU builds>.)"
      pip install --quiet --no-compile "torch==$torch"
    fi
  fi
  echo "Installing the locked packages ($lock, about 150 MB)"
fi
# uv first, at the lock's own version: it installs the others several times as fast as pip.
.venv/bin/python envs/lock_part.py "$lock" uv > .venv/uv.lock
pip install --quiet --no-compile --no-deps --require-hashes -r .venv/uv.lock || echo "uv cannot be installed" >&2
.venv/bin/python envs/lock_part.py "$lock" --without ${others[@]+"${others[@]}"} > .venv/packages.lock
.venv/bin/python envs/install.py --no-deps --require-hashes -r .venv/packages.lock
# Compatible mode: Snakemake finds its logger plugin only in folders on the path.
.venv/bin/python envs/install.py --no-deps --no-build-isolation --config-settings editable_mode=compat -e . -e ./grader
if [ "$device" = cuda ]; then
  envs/kernels.sh "$lock"
fi
echo "Compiling what a run imports"
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -W ignore envs/precompile.py
