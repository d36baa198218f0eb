#!/usr/bin/env bash
# Installs what Troupe needs from the distribution's packages (Debian 12). Safe to run again: installs only what is missing.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git
  libcaf-dev                                    # actors, cluster networking
  libeigen3-dev libdnnl-dev                     # CPU kernels
  libisal-dev                                   # checksums of checkpoints
  protobuf-compiler libprotobuf-dev             # wire and file schemas
  libfmt-dev libcli11-dev nlohmann-json3-dev libcpp-httplib-dev
  libssl-dev zlib1g-dev libncurses-dev          # TLS and hashing, compression, terminal
  libgtest-dev libgmock-dev libtbb-dev          # tests; a peer of the benchmarks
  iproute2                                      # tests between network namespaces
)
peer_packages=(python3 python3-numpy python3-torch libopenblas0-pthread)  # without the last, PyTorch multiplies with the reference BLAS
browser_packages=(chromium)

usage() {
  cat <<TEXT
Usage: tools/setup.sh [--with-peers] [--with-browser]

Installs the packages that Troupe is built and tested with, where they are missing:
  ${packages[*]}

  --with-peers    also what the benchmarks compare with: ${peer_packages[*]}
  --with-browser  also what the tests of the web page need: ${browser_packages[*]}
  --help          this text

Needs root, or sudo, if anything is missing.
TEXT
}

for argument in "$@"; do
  case "$argument" in
    --with-peers) packages+=("${peer_packages[@]}") ;;
    --with-browser) packages+=("${browser_packages[@]}") ;;
    --help | -h) usage; exit 0 ;;
    *) echo "setup: unknown option $argument; see tools/setup.sh --help" >&2; exit 2 ;;
  esac
done

installed() { [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: please install these as root: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo DEBIAN_FRONTEND=noninteractive)
fi

echo "setup: installing ${missing[*]}"
install=(apt-get install --yes --quiet --no-install-recommends)
# The lists of packages may be absent or too old: then fetch them first.
if ! "${install[@]}" --simulate "${missing[@]}" >/dev/null 2>&1; then
  "${as_root[@]}" apt-get update --quiet
fi
"${as_root[@]}" "${install[@]}" "${missing[@]}"
echo "setup: done"
