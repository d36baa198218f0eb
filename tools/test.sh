#!/usr/bin/env bash
# Sets up, builds and runs all tests: everything in release, then wire, parsers and protocols with AddressSanitizer and
# UndefinedBehaviorSanitizer; where clang is installed, then bytes of any kind against what reads frames, for a minute. Ends
# with one summary of the tests. Exit code 0: all passed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: tools/test.sh [--no-setup] [--no-asan] [--no-fuzz] [--unity | --no-unity]

  --no-setup  do not look for missing packages, nor for TensorBoard (build/tensorboard)
  --no-asan   release only
  --no-fuzz   no fuzzing
  --unity     compile sources in batches: faster from nothing, but all of a batch again after a change in one of its
              sources; the default where the environment says CI=true. --no-unity: each by itself

Logs: build/release/test.log, build/asan/test.log, build/fuzz/test.log
TEXT
}

setup=yes
asan=yes
fuzz=yes
unity=OFF
[[ "${CI:-}" != true ]] || unity=ON
for argument in "$@"; do
  case "$argument" in
    --no-setup) setup=no ;;
    --no-asan) asan=no ;;
    --no-fuzz) fuzz=no ;;
    --unity) unity=ON ;;
    --no-unity) unity=OFF ;;
    --help | -h) usage; exit 0 ;;
    *) echo "test: unknown option $argument; see tools/test.sh --help" >&2; exit 2 ;;
  esac
done

jobs="$(nproc)"
asan_targets=(test_messages test_graph test_scheduler test_checkpoint test_actors)
failures=()  # builds and runs that did not end well

say() { printf '\n== %(%H:%M:%S)T %s\n' -1 "$*"; }

# configure_and_build PRESET [TARGET...]
configure_and_build() {
  local preset="$1" targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  say "$preset: configure"
  cmake --preset "$preset" -D "TROUPE_UNITY=$unity" || return
  say "$preset: build ${*:-everything}"
  cmake --build "build/$preset" --parallel "$jobs" "${targets[@]}"
}

# run_tests PRESET [CTEST ARGUMENTS...]: output goes to the terminal and to build/PRESET/test.log.
run_tests() {
  local preset="$1"
  shift
  say "$preset: test"
  ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --timeout 600 "$@" 2>&1 |
    tee "build/$preset/test.log"
}

# fuzz_frames SECONDS: an input that breaks a promise is left in build/fuzz.
fuzz_frames() {
  configure_and_build fuzz fuzz_frames || return
  say "fuzz: frames for $1 s"
  rm -rf build/fuzz/corpus
  build/fuzz/bin/fuzz_frames --seeds=build/fuzz/corpus &&
    build/fuzz/bin/fuzz_frames build/fuzz/corpus -max_total_time="$1" -max_len=65536 -print_final_stats=1 \
      -artifact_prefix=build/fuzz/ >build/fuzz/test.log 2>&1 || { tail -40 build/fuzz/test.log; return 1; }
  grep -E '^(Done|stat::number_of_executed_units)' build/fuzz/test.log
}

# One line per test: "  3/20 Test  #3: Name .....   Passed    0.01 sec", or "***Failed", "***Exception: ...", "***Skipped".
count_results() { cat "${logs[@]}" 2>/dev/null | grep -cE "^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*$1" || true; }

summary() {
  local logs=("${@/%//test.log}")
  logs=("${logs[@]/#/build/}")
  local preset passed failed skipped
  passed="$(count_results ' Passed  ')"
  skipped="$(count_results '[*]{3}Skipped')"
  failed="$(count_results '[*]{3}(Failed|Timeout|Exception|Not Run)')"
  echo
  local total=$((passed + failed + skipped))
  if ((total > 0)); then
    printf '%d%% tests passed, %d tests failed out of %d' $((100 * (passed + skipped) / total)) "$failed" "$total"
    ((skipped == 0)) || printf ' (%d skipped)' "$skipped"
    echo
  fi
  for preset in "$@"; do
    grep -hE '^\s+[0-9]+ - .*\((Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run|Skipped|.*Exception.*)\)' \
      "build/$preset/test.log" 2>/dev/null | sed -E "s/^\s+/  $preset: /" || true
  done
  printf 'Total Test time (real) = %d sec\n' "$SECONDS"
}

[[ "$setup" == no ]] || tools/setup.sh --with-browser --with-tensorboard

presets=(release)
rm -f build/release/test.log build/asan/test.log
if configure_and_build release; then
  run_tests release || failures+=("release tests")
else
  failures+=("release build")
fi

if [[ "$asan" == yes ]]; then
  presets+=(asan)
  if configure_and_build asan "${asan_targets[@]}"; then
    pattern="$(IFS='|'; echo "${asan_targets[*]}")"
    run_tests asan --label-regex "^($pattern)\$" || failures+=("asan tests")
  else
    failures+=("asan build")
  fi
fi

if [[ "$fuzz" == yes ]] && command -v clang++ >/dev/null; then
  fuzz_frames 60 || failures+=("fuzz")
fi

summary "${presets[@]}"
if ((${#failures[@]} > 0)); then
  printf 'FAILED: %s\n' "${failures[@]}"
  exit 1
fi
