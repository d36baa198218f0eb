#!/usr/bin/env bash
# Runs tests with ThreadSanitizer. CAF is built with it, from the distribution's source: without, it reports each
# message as a race, as it does not see how mailboxes pass them on. Exit code 0: all passed, and no race was reported.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: tools/thread-sanitizer.sh [TARGET...]

Builds test programs with ThreadSanitizer (g++, --preset tsan) and runs their tests, ten times as slow as others. By
default: test_actors_session, steps on the threads of their callers. The first run builds CAF 0.17.6 from the
distribution's source, which apt-get downloads; no package is installed.

  tools/thread-sanitizer.sh test_actors_steps test_devices

Logs: build/tsan/test.log, build/tsan-caf/*.log
TEXT
}
case "${1:-}" in
  --help | -h) usage; exit 0 ;;
  -*) echo "thread-sanitizer: unknown option $1; see tools/thread-sanitizer.sh --help" >&2; exit 2 ;;
esac
targets=("$@")
((${#targets[@]} > 0)) || targets=(test_actors_session)
flags="-fsanitize=thread -O1 -g1"
caf="$PWD/build/tsan-caf"

# Downloads the source package into $caf with lists of its own, as source packages are rarely among a system's. The
# archive of CAF is enough: mirrors do not always have the distribution's changes to it.
download_caf() {
  mkdir -p "$caf/apt/lists/partial" "$caf/apt/cache/archives/partial"
  sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$caf/apt/debian.sources"
  local apt=(apt-get -o "Dir::Etc::SourceList=$caf/apt/debian.sources" -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=
    -o "Dir::State::Lists=$caf/apt/lists" -o "Dir::Cache=$caf/apt/cache")
  "${apt[@]}" update && cd "$caf" && { "${apt[@]}" source --download-only actor-framework || true; } &&
    ls actor-framework_*.orig.tar.*
}

build_caf() {
  [[ ! -e "$caf/lib/libcaf_io.so" ]] || return 0
  echo "thread-sanitizer: building CAF (build/tsan-caf)"
  rm -rf "$caf" && mkdir -p "$caf/source"
  (download_caf) >"$caf/download.log" 2>&1 || { tail -n 5 "$caf/download.log" >&2; return 1; }
  tar -xf "$caf"/actor-framework_*.orig.tar.* -C "$caf/source" --strip-components=1
  cmake -S "$caf/source" -B "$caf" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS="$flags -w -include limits" \
    -DCAF_NO_{EXAMPLES,UNIT_TESTS,TOOLS,PYTHON,OPENCL,OPENSSL}=ON >"$caf/configure.log" 2>&1 &&
    cmake --build "$caf" >"$caf/build.log" 2>&1 || { tail -n 20 "$caf"/{configure,build}.log >&2; return 1; }
}

build_caf
cmake --preset tsan -D CAF_core_LIBRARY="$caf/lib/libcaf_core.so" -D CAF_io_LIBRARY="$caf/lib/libcaf_io.so"
cmake --build build/tsan --target "${targets[@]}"
TSAN_OPTIONS="suppressions=$PWD/tools/sanitizers/threads.supp" ctest --test-dir build/tsan --parallel "$(nproc)" \
  --output-on-failure --label-regex "^($(IFS='|'; echo "${targets[*]}"))\$" 2>&1 | tee build/tsan/test.log
