#!/usr/bin/env bash
# Builds the locked CPU environment in .venv. Called by make; safe to call again.
#   PYTHON       the interpreter (3.11 to 3.13), default python3
#   TORCH_INDEX  a package index to take torch from, for example one with CPU-only builds
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
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

[ -x .venv/bin/python ] || "$python" -m venv .venv
# --no-compile: two thirds of the modules are never imported; envs/precompile.py compiles the others.
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }

if [ "$(.venv/bin/python -c 'from importlib.metadata import version; print(version("torch").split("+")[0])' 2>/dev/null)" != "$torch" ]; then
  if [ -n "${TORCH_INDEX:-}" ]; then
    echo "Installing torch $torch from $TORCH_INDEX"
    pip install --quiet --no-compile "torch==$torch" --index-url "$TORCH_INDEX"
  else
    echo "Installing torch $torch: about 200 MB as a CPU build; pip's default build for Linux brings some 3 GB of CUDA libraries."
    echo "(For a CPU-only build, stop and run again with TORCH_INDEX=<address of an index of CPU builds>.)"
    pip install --quiet --no-compile "torch==$torch"
  fi
fi
echo "Installing the locked packages (envs/cpu.lock, about 150 MB)"
# uv first, at the lock's own version: it installs the others several times as fast as pip.
sed -n '/^uv==/,/[^\\]$/p' envs/cpu.lock > .venv/uv.lock
pip install --quiet --no-compile --no-deps --require-hashes -r .venv/uv.lock || echo "uv cannot be installed" >&2
.venv/bin/python envs/install.py --no-deps --require-hashes -r envs/cpu.lock
# Compatible mode: Snakemake finds its logger plugin only in folders on the path.
.venv/bin/python envs/install.py --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
echo "Compiling what a run imports"
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -W ignore envs/precompile.py
