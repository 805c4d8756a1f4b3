#!/usr/bin/env bash
# Installs the compiled attention kernels of the CUDA environment, flash-attn and causal-conv1d, after torch.
# Called by envs/pipeline.sh with the lock file. A kernel that cannot be installed is a warning: without it torch computes.
#   FLASH_ATTN_WHEEL, CAUSAL_CONV1D_WHEEL   the address or file of a prebuilt wheel; `none` skips the kernel
#   MAX_JOBS                                compilers that run together in a build from source (each takes some 5 GB)
# A wheel must match torch's version, its CUDA and Python: flash_attn-2.8.3+cu130torch2.13-cp311-cp311-linux_x86_64.whl. The name is
# checked before the download, the module after the installation.
# Without an address, the package looks for such a wheel at its authors' releases, and builds from source if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
lock=$1
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true)

works() { $python -c "import torch, $1" 2>.venv/kernel-error.txt; }

# kernel PACKAGE EXTENSION VARIABLE TIME WITHOUT
kernel() {
  local package=$1 extension=$2 variable=$3 time=$4 without=$5 fault=""
  local address=${variable}_WHEEL
  local wheel=${!address:-}
  if works "$extension"; then
    return
  fi
  if [ "$wheel" = none ]; then
    fault="it was not wanted"
  elif [ -n "$wheel" ] && fault=$($python envs/wheel_fits.py "$wheel") && [ -n "$fault" ]; then
    : # nothing is downloaded
  elif [ -n "$wheel" ]; then
    echo "Installing $package from $wheel"
    $python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps "$wheel" || fault="$wheel cannot be installed"
  else
    $python envs/lock_part.py "$lock" "$package" > .venv/kernel.lock
    if [ -n "$nvcc" ]; then
      echo "Installing $package: a build from source with $nvcc takes $time, unless its authors have a wheel for this torch."
      echo "(To skip it, stop and run again with $address=<address of a wheel> or $address=none.)"
    else
      echo "Installing $package: there is no nvcc here to build it, so only a wheel of its authors can serve"
      export FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE CAUSAL_CONV1D_SKIP_CUDA_BUILD=TRUE
    fi
    $python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --no-build-isolation --require-hashes \
      -r .venv/kernel.lock || fault="it cannot be built, and its authors have no wheel for this torch and Python"
  fi
  if [ -z "$fault" ] && ! works "$extension"; then
    fault=$(tail -n 1 .venv/kernel-error.txt)
  fi
  if [ -n "$fault" ]; then
    # A package without its extension would be chosen by its name and fail in the jobs.
    $python -m pip --disable-pip-version-check uninstall --quiet --yes "$package" 2>/dev/null || true
    echo "warning: $package is not installed: $fault. $without" >&2
    echo "         To add it: make env DEVICE=cuda $address=<address of a wheel for this torch, CUDA and Python>" >&2
  fi
}

kernel flash-attn flash_attn_2_cuda FLASH_ATTN "about an hour on 16 cores" "Attention takes torch's SDPA."
kernel causal-conv1d causal_conv1d_cuda CAUSAL_CONV1D "some minutes" "Gated DeltaNet's convolution takes torch's."
