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
  python3                                       # tests of traces
)
peer_packages=(python3-numpy python3-torch libopenblas0-pthread)  # without the last, PyTorch multiplies with the reference BLAS
browser_packages=(chromium)
tensorboard=tensorboard==2.21.0  # of PyPI: the distribution has none

usage() {
  cat <<TEXT
Usage: tools/setup.sh [--with-peers] [--with-browser] [--with-tensorboard]

Installs the packages that Troupe is built and tested with, where they are missing:
  ${packages[*]}

  --with-peers    also what the benchmarks compare with: ${peer_packages[*]}
  --with-browser  also what the tests of the web page need: ${browser_packages[*]}
  --with-tensorboard  also TensorBoard, which a test loads curves with: $tensorboard from PyPI, into
                  build/tensorboard; if that is not to be had, only says so
  --help          this text

For GPUs of NVIDIA's, CUDA's toolkit (13.0 or newer), cuDNN 9 and NCCL are installed apart: the distribution has none that is
new enough. Without them everything is built but the library of GPUs.

Needs root, or sudo, if anything is missing.
TEXT
}

with_tensorboard=no
for argument in "$@"; do
  case "$argument" in
    --with-peers) packages+=("${peer_packages[@]}") ;;
    --with-browser) packages+=("${browser_packages[@]}") ;;
    --with-tensorboard) with_tensorboard=yes ;;
    --help | -h) usage; exit 0 ;;
    *) echo "setup: unknown option $argument; see tools/setup.sh --help" >&2; exit 2 ;;
  esac
done

installed() { [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

# TensorBoard in a Python environment of its own, which is there when it is whole.
install_tensorboard() {
  local place
  place="$(dirname "$0")/../build/tensorboard"
  if [[ "$(cat "$place/installed" 2>/dev/null)" == "$tensorboard" ]]; then
    echo "setup: $tensorboard is installed"
    return
  fi
  echo "setup: installing $tensorboard from PyPI"
  if rm -rf "$place" && mkdir -p "$(dirname "$place")" && python3 -m venv "$place" &&
    "$place/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --timeout 10 --retries 1 "$tensorboard"; then
    echo "$tensorboard" >"$place/installed"
  else
    rm -rf "$place"
    echo "setup: TensorBoard cannot be installed; the test that loads curves with it is skipped" >&2
  fi
}

# What is used only then: a Python that can make environments may be another than the distribution's.
if [[ "$with_tensorboard" == yes ]] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  packages+=(python3 python3-venv)
fi

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  [[ "$with_tensorboard" == no ]] || install_tensorboard
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
[[ "$with_tensorboard" == no ]] || install_tensorboard
echo "setup: done"
