#!/usr/bin/env bash
# Builds the locked environment of the pipeline in .venv with uv. Called by make; safe to call again.
#   DEVICE       cpu (default), or cuda: Linux on x86-64 with NVIDIA GPUs
#   PYTHON       the interpreter (3.11 to 3.13), default python3; uv provides one in place of any other version
#   TORCH_INDEX  a package index to take torch from: one with builds for an older CUDA, or a mirror
#   FLASH_ATTN_WHEEL, CAUSAL_CONV1D_WHEEL   (cuda) addresses or files of prebuilt wheels for this torch, CUDA and Python
# uv reads no settings of pip. Behind a mirror, set UV_DEFAULT_INDEX.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONPATH PYTHONHOME # packages elsewhere would count as installed
unset PYTHONDONTWRITEBYTECODE

python=${PYTHON:-python3}
device=${DEVICE:-cpu}
lock=envs/$device.lock
torch=2.13.0

fail() {
  echo "error: $*" >&2
  exit 2
}

case $device:$(uname -sm) in
  cpu:* | "cuda:Linux x86_64") ;;
  cuda:*) fail "the CUDA environment is locked for Linux on x86-64, and this is $(uname -sm); use make env DEVICE=cpu" ;;
  *) fail "DEVICE=$device; expected cpu or cuda: make env DEVICE=cuda" ;;
esac
case $(grep '^command = ' .venv/pyvenv.cfg 2>/dev/null) in
  "" | *" $(pwd -P)/.venv") ;;
  *)
    echo "The environment in .venv was built for another folder, whose code its programs run: building it again"
    rm -rf .venv
    ;;
esac

# entries PACKAGE: what the lock has of one package, with its hashes.
entries() { sed -n -E "/^$1==/,/[^\\]$/p" "$lock"; }
# uv of the lock, in an environment of any Python.
get_uv() { "$1/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r <(entries uv); }

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
case $version in
  3.11 | 3.12 | 3.13)
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    [ -x .venv/bin/uv ] || get_uv .venv
    uv=.venv/bin/uv
    ;;
  *)
    needed="install Python 3.12, or name one of 3.11 to 3.13: make PYTHON=python3.12"
    echo "'$python' is Python ${version:-of no known version}, and this project needs 3.11 to 3.13: uv provides 3.12"
    if ! uv=$(command -v uv); then
      { "$python" -m venv .venv-uv && get_uv .venv-uv; } 2>/dev/null || fail "uv cannot be installed; $needed"
      uv=.venv-uv/bin/uv
    fi
    [ -x .venv/bin/python ] || "$uv" venv --quiet --seed --python 3.12 .venv || fail "uv cannot download Python 3.12; $needed"
    ;;
esac
install() { "$uv" pip install --quiet --python .venv/bin/python --no-deps --compile-bytecode "$@"; }
installed() { .venv/bin/python -c 'import torch; print(torch.__version__.split("+")[0], torch.version.cuda or "cpu")' 2>/dev/null || true; }

found=$(installed)
if [ "$device" = cuda ]; then
  others='flash-attn|causal-conv1d'
  if [ -n "${TORCH_INDEX:-}" ]; then
    others+='|torch|triton|nvidia-[^=]*|cuda-[^=]*' # another build of torch brings libraries of its own CUDA
    [[ $found = "$torch "[0-9]* ]] || "$uv" pip install --quiet --python .venv/bin/python --reinstall-package torch \
      "torch==$torch" --default-index "$TORCH_INDEX"
  elif [ "$found" = "$torch cpu" ]; then
    "$uv" pip uninstall --quiet --python .venv/bin/python torch # it counts as the locked version
  fi
  echo "Installing the locked packages ($lock, about 3.5 GB with torch and its CUDA libraries; minutes)"
  sed -E "/^($others)==/,/[^\\]$/d" "$lock" > .venv/packages.lock
else
  if [ "${found% *}" != "$torch" ]; then
    installing() { echo "Installing torch $torch: $1; this can take minutes, without a progress bar"; }
    # With its dependencies: the lock has those alone that the project's other packages have too.
    with_dependencies() { "$uv" pip install --quiet --python .venv/bin/python "$@"; }
    if [ -n "${TORCH_INDEX:-}" ]; then
      installing "the build of $TORCH_INDEX"
      with_dependencies "torch==$torch" --default-index "$TORCH_INDEX"
    elif grep -qE '(index-url|find-links|no-index)=' <<< "$(.venv/bin/python -m pip config list)"; then
      installing "the build of the index or folder that pip's settings name"
      .venv/bin/python -m pip install --quiet "torch==$torch"
    elif [ "$(uname -s)" = Linux ] && ! nvidia-smi >/dev/null 2>&1; then
      installing "200 MB, the CPU build of download.pytorch.org"
      with_dependencies "torch==$torch" --default-index https://download.pytorch.org/whl/cpu
    else
      installing "3 GB on Linux with its CUDA libraries, 100 MB on a Mac"
      with_dependencies "torch==$torch"
    fi
  fi
  echo "Installing the locked packages ($lock, about 150 MB; a minute or more)"
  cp "$lock" .venv/packages.lock
fi
install --require-hashes -r .venv/packages.lock ||
  fail "uv cannot install the packages of $lock; behind a mirror, set UV_DEFAULT_INDEX=<its address>"
# Compatible mode: Snakemake finds its logger plugin only in folders on the path.
install --no-build-isolation --config-settings editable_mode=compat -e . -e ./grader
.venv/bin/python -m compileall -q stair grader/answer_grader

# kernel PACKAGE MODULE VARIABLE: a compiled kernel, which torch's own code replaces where it is not wanted.
kernel() {
  local address=${3}_WHEEL
  local wheel=${!address:-}
  if [ -n "$wheel" ] && [ "$wheel" != none ]; then
    install "$wheel" || fail "$wheel cannot be installed"
  fi
  if .venv/bin/python -c "import torch, $2" 2>.venv/kernel-error.txt; then
    return
  fi
  if [ -n "$wheel" ] && [ "$wheel" != none ]; then
    # Without its compiled module, the package would be chosen by its name and fail in the jobs.
    "$uv" pip uninstall --quiet --python .venv/bin/python "$1"
    fail "$wheel does not fit this torch, CUDA or Python: $(tail -n 1 .venv/kernel-error.txt)"
  fi
  echo "$1 is not installed, so torch computes in its place. To add it: make env DEVICE=cuda $address=<address of a wheel>"
}
if [ "$device" = cuda ]; then
  kernel flash-attn flash_attn_2_cuda FLASH_ATTN
  kernel causal-conv1d causal_conv1d_cuda CAUSAL_CONV1D
fi
