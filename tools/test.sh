#!/usr/bin/env bash
# Sets up, builds and runs all tests: everything in release, then wire, parsers and protocols with AddressSanitizer
# and UndefinedBehaviorSanitizer. If clang 16 is installed, it builds the latter, and fuzzers of the parsers of frames,
# proofs, requests from other tasks, ONNX models, files of tensors, of records and of arrays, CSV, JSON lines, images,
# answers of object stores, saved models and bodies of REST, which run for some two minutes. Ends with the build's time
# by folder and a summary of the tests. Exit code 0: all passed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: tools/test.sh [--no-setup] [--no-asan] [--no-fuzz] [--clang] [--long]

  --no-setup  do not install missing packages or TensorBoard (build/tensorboard)
  --no-asan   no sanitizers
  --no-fuzz   no fuzzing
  --clang     also build everything with clang 16 and run all tests
  --long      simulate all seeds, not every tenth; attack each port 100,000 times; train on 4 GiB (an hour)

Logs and results: test.log, test.xml of build/release, build/fuzz (without clang build/asan), build/clang;
build/fuzz/*.log
TEXT
}

setup=yes
asan=yes
fuzz=yes
clang=no
packages=(--with-browser --with-tensorboard --with-python=packages --with-clang)
for argument in "$@"; do
  case "$argument" in
    --no-setup) setup=no ;;
    --no-asan) asan=no ;;
    --no-fuzz) fuzz=no ;;
    --clang) clang=yes ;;
    --long) export TROUPE_LONG_TESTS=1 ;;
    --help | -h) usage; exit 0 ;;
    *) echo "test: unknown option $argument; see tools/test.sh --help" >&2; exit 2 ;;
  esac
done

jobs="$(nproc)"
sanitized_targets=(test_messages test_graph test_devices_storage test_kernels_readers test_scheduler test_fuzz
  test_actors test_c_api)
failures=()  # failed builds and runs
results=()   # of test runs: NAME=FILE

say() { printf '\n== %(%H:%M:%S)T %s\n' -1 "$*"; }

# configure_and_build PRESET [TARGET...]
configure_and_build() {
  local preset="$1" targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  say "$preset: configure"
  cmake --preset "$preset" || return
  say "$preset: build ${*:-everything}"
  cmake --build "build/$preset" --parallel "$jobs" "${targets[@]}"
}

# run_tests PRESET [CTEST ARGUMENTS...]: output goes to the terminal and to build/PRESET/test.log, all output of tests
# to build/PRESET/test.xml. Runs twice as many tests at once as there are processors, because tests wait for processes
# and timeouts.
run_tests() {
  local preset="$1"
  shift
  say "$preset: test"
  rm -f "build/$preset/test.xml"
  results+=("$preset=build/$preset/test.xml")
  ctest --test-dir "build/$preset" --parallel $((2 * jobs)) --output-on-failure --timeout 600 \
    --output-junit "$PWD/build/$preset/test.xml" --test-output-size-passed 10000000 --test-output-size-failed 10000000 \
    "$@" 2>&1 | tee "build/$preset/test.log"
}

# fuzz NAME=SECONDS...: CPU time over all processors. Failing inputs are left in build/fuzz.
fuzz() {
  local target name seconds
  cmake --build build/fuzz --parallel "$jobs" --target fuzzers || return
  for target in "$@"; do
    name="${target%=*}" seconds="${target#*=}"
    say "fuzz: $name for $seconds s of CPU"
    rm -rf "build/fuzz/corpus_$name"
    "build/fuzz/bin/fuzz_$name" --seeds="build/fuzz/corpus_$name" &&
      (cd build/fuzz && "bin/fuzz_$name" "corpus_$name" -jobs="$jobs" -workers="$jobs" -max_len=65536 \
        -max_total_time=$(((seconds + jobs - 1) / jobs)) -print_final_stats=1 >"$name.log" 2>&1) ||
      { tail -40 "build/fuzz/$name.log"; return 1; }
    grep -E '^(Done|stat::number_of_executed_units)' "build/fuzz/$name.log"
  done
}

[[ "$setup" == no ]] || tools/setup.sh "${packages[@]}"

if configure_and_build release; then
  run_tests release || failures+=("release tests")
else
  failures+=("release build")
fi

# clang makes programs with sanitizers that are also fuzzed: one build for both.
sanitizers=fuzz
if [[ "$fuzz" == no ]] || ! command -v clang++-16 >/dev/null; then
  sanitizers=asan fuzz=no
fi
if [[ "$asan" == yes || "$fuzz" == yes ]]; then
  if configure_and_build "$sanitizers" "${sanitized_targets[@]}"; then
    pattern="$(IFS='|'; echo "${sanitized_targets[*]}")"
    [[ "$asan" == no ]] ||
      run_tests "$sanitizers" --label-regex "^($pattern)(_|\$)" || failures+=("tests with sanitizers")
  else
    failures+=("build with sanitizers")
  fi
fi

if [[ "$fuzz" == yes ]]; then
  fuzz frame=31 control=18 authentication=6 onnx=22 images=8 tensor_files=15 records=10 csv=12 \
    arrays=10 object_stores=6 rest_bodies=8 grpc_messages=8 saved_model=20 tensorflow=10 || failures+=("fuzz")
fi

if [[ "$clang" == yes ]]; then
  if configure_and_build clang; then
    run_tests clang || failures+=("clang tests")
  else
    failures+=("clang build")
  fi
fi

say "time of the release build"
tools/build_report.py build/release || true
say "slowest tests"
tools/test_summary.py "${results[@]}" --slowest 20 || true
printf 'Total Test time (real) = %d sec\n' "$SECONDS"
if ((${#failures[@]} > 0)); then
  printf 'FAILED: %s\n' "${failures[@]}"
  exit 1
fi
