#!/usr/bin/env bash
# Installs what some tests need from Debian or Ubuntu, as root: envs/debian.sh GROUP...
#   latex   pdfLaTeX with the packages of tables: `make paper`, and the tests that compile (150 MB on disk)
#   slurm   a Slurm of one machine, with accounting: the tests of profiles/slurm
# Installed packages stay as they are.
set -euo pipefail

latex=(texlive-latex-recommended)
slurm=(slurmctld slurmdbd slurmd slurm-client munge mariadb-server-core mariadb-client-core)

[ $# -gt 0 ] || {
  echo "error: name one or more groups of packages: latex, slurm" >&2
  exit 2
}
wanted=()
for group in "$@"; do
  case $group in
    latex) wanted+=("${latex[@]}") ;;
    slurm) wanted+=("${slurm[@]}") ;;
    *)
      echo "error: there is no group '$group' (there are: latex, slurm)" >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" -eq 0 ] || {
  echo "error: only root can install ${missing[*]}; run: sudo envs/debian.sh $*" >&2
  exit 2
}
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
