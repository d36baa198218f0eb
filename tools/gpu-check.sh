#!/usr/bin/env bash
# Checks Troupe on a machine with an NVIDIA GPU: configures, builds, tests, measures, and writes a report. Takes a few
# minutes; needs no network. Without a GPU it does everything that needs none, and says so.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

usage() {
  cat <<'TEXT'
Usage: tools/gpu-check.sh [--prefix DIR]... [--build DIR] [--report DIR] [--all] [--quick] [--no-test] [--no-bench]
                          [--bench CASE]...

  --prefix DIR   dependencies that the system lacks: an installation, or packages of a distribution (DIR/*.deb; see
                 tools/setup.sh --download), which are unpacked beside the build directory
  --build DIR    build directory (default: build/gpu)
  --report DIR   report directory (default: build/gpu-check): report.txt for people, report.jsonl with one JSON object
                 per line, and the log of each step
  --all          build everything and run all tests; default: the GPU code and its tests
  --quick        measure the smallest sizes once: shows that the benchmarks work, not how fast
  --no-test      run no tests: for a second command that measures the build of a first one
  --no-bench     run no benchmarks
  --bench CASE   measure only this; an argument of troupe-bench
  --help         print this text

Exit code: 0: there is a GPU and everything passed, whatever the figures; 1: something failed; 2: wrong usage;
3: everything possible without a GPU passed, but there is none.
TEXT
}

prefixes=()
build=build/gpu
report=build/gpu-check
all=no
tests=yes
bench=yes
bench_arguments=()
while (($# > 0)); do
  case "$1" in
    --prefix | --build | --report | --bench)
      (($# > 1)) || { echo "gpu-check: $1 needs a value; see tools/gpu-check.sh --help" >&2; exit 2; }
      case "$1" in
        --prefix)
          [[ -d "$2" ]] || { echo "gpu-check: no directory $2" >&2; exit 2; }
          prefixes+=("$(cd "$2" && pwd)")
          ;;
        --build) build="$2" ;;
        --report) report="$2" ;;
        --bench) bench_arguments+=("$2") ;;
      esac
      shift
      ;;
    --all) all=yes ;;
    --quick) bench_arguments+=(--quick) ;;
    --no-test) tests=no ;;
    --no-bench) bench=no ;;
    --help | -h) usage; exit 0 ;;
    *) echo "gpu-check: unknown option $1; see tools/gpu-check.sh --help" >&2; exit 2 ;;
  esac
  shift
done

mkdir -p "$report" || exit 1
text="$report/report.txt"
lines="$report/report.jsonl"
: >"$text"
: >"$lines"
failures=()
aimed=0  # figures with a target
below=0  # those that miss it
jobs="$(nproc)"

say() { printf '%s\n' "$*" | tee -a "$text"; }
# json_string TEXT: prints TEXT as a JSON string.
json_string() {
  local s="${1//\\/\\\\}"
  s="${s//\"/\\\"}"
  s="${s//$'\n'/ }"
  printf '"%s"' "${s//$'\t'/ }"
}
# begin NAME; ended NAME OK LOG: a step; prints the end of its log if it failed.
begin() {
  began=$SECONDS
  printf '== %(%H:%M:%S)T %s\n' -1 "$1"
}
ended() {
  local seconds=$((SECONDS - began))
  printf '{"step":"%s","ok":%s,"seconds":%d}\n' "$1" "$2" "$seconds" >>"$lines"
  if [[ $2 == true ]]; then
    say "$(printf '%-10s ok, %d s' "$1" "$seconds")"
    return 0
  fi
  say "$(printf '%-10s FAILED after %d s; the end of %s:' "$1" "$seconds" "$3")"
  tail -n 30 "$3" | tee -a "$text"
  failures+=("$1")
  return 1
}
# step NAME COMMAND...: runs a step with its output in REPORT/NAME.log.
step() {
  local name="$1" ok=true
  shift
  begin "$name"
  "$@" >"$report/$name.log" 2>&1 || ok=false
  ended "$name" $ok "$report/$name.log"
}
# Records that the kernels did not run on the existing GPU.
unused() {
  say "nvidia-smi shows a GPU, but nothing ran on it: see why in $report"
  [[ " ${failures[*]} " == *" use of the GPU "* ]] || failures+=("use of the GPU")
}
finish() {
  say ""
  if ((${#failures[@]} > 0)); then
    say "FAILED: ${failures[*]}"
    exit 1
  fi
  [[ -n "$gpus" ]] || { say "Everything possible here passed; there is NO GPU, so nothing ran on one."; exit 3; }
  say "All passed on: $gpus"
  ((aimed == 0)) || say "$below of $aimed figures are below their targets."
  exit 0
}

# ---- the machine
gpus="$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | paste -sd, - || true)"
driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)"
cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
commit="$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
say "Troupe $commit, $(date -u '+%Y-%m-%d %H:%M UTC')"
say "GPU: ${gpus:-none}; driver ${driver:-none}"
say "CPU: $cpu, $jobs threads"
printf '{"step":"machine","commit":"%s","gpu":%s,"driver":%s,"cpu":%s,"threads":%d}\n' "$commit" \
  "$(json_string "$gpus")" "$(json_string "$driver")" "$(json_string "$cpu")" "$jobs" >>"$lines"

# ---- dependencies in other places
python="$(command -v python3 || echo /usr/bin/python3)"  # the machine's, which may have PyTorch; not a prefix's
cmake_prefix=()
libraries=()
includes=()
triplet="$(gcc -print-multiarch 2>/dev/null || true)"
# unpack DIR TO: unpacks the packages in DIR. Absolute links are redirected into TO.
unpack() {
  local package link
  rm -rf "$2" && mkdir -p "$2" || return
  for package in "$1"/*.deb; do dpkg -x "$package" "$2" || return; done
  while IFS= read -r link; do ln -sfn "$2$(readlink "$link")" "$link" || return; done < <(find "$2" -type l -lname '/*')
}
for i in "${!prefixes[@]}"; do
  compgen -G "${prefixes[i]}/*.deb" >/dev/null || continue
  mkdir -p "$build-packages" || exit 1
  to="$(cd "$build-packages" && pwd)/$i"
  step unpack unpack "${prefixes[i]}" "$to" || finish
  prefixes[i]="$to"
done
for prefix in "${prefixes[@]}"; do
  for root in "$prefix" "$prefix/usr" "$prefix/usr/local"; do
    [[ -d "$root" ]] || continue
    cmake_prefix+=("$root")
    [[ ! -d "$root/bin" ]] || PATH="$root/bin:$PATH"
    [[ ! -d "$root/include/${triplet:-none}" ]] || includes+=("$root/include/$triplet")
    for library in "$root/lib" "$root/lib64" "$root/lib/${triplet:-none}"; do
      [[ -d "$library" ]] || continue
      if [[ -e "$library/libc.so.6" ]]; then
        echo "gpu-check: $library contains a C library, which this machine's programs cannot use: leave out libc6" >&2
        exit 2
      fi
      libraries+=("$library")
    done
  done
done
export PATH
if ((${#libraries[@]} > 0)); then
  LD_LIBRARY_PATH="$(IFS=:; echo "${libraries[*]}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  LIBRARY_PATH="$(IFS=:; echo "${libraries[*]}")${LIBRARY_PATH:+:$LIBRARY_PATH}"
  export LD_LIBRARY_PATH LIBRARY_PATH
fi
if ((${#includes[@]} > 0)); then  # architecture-specific, as on Debian; CMake packages do not name them
  CPATH="$(IFS=:; echo "${includes[*]}")${CPATH:+:$CPATH}"
  export CPATH
fi
if [[ -z "${CUDNN_PATH:-}" ]]; then
  CUDNN_PATH="$("$python" -c 'import nvidia.cudnn as package; print(package.__path__[0])' 2>/dev/null || true)"
  export CUDNN_PATH
fi

# ---- configure, build
configuration=(-S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DTROUPE_CUDA=ON)
! command -v ninja >/dev/null || configuration+=(-G Ninja)
((${#cmake_prefix[@]} == 0)) || configuration+=("-DCMAKE_PREFIX_PATH=$(IFS=';'; echo "${cmake_prefix[*]}")")
if [[ -z "${CUDACXX:-}" ]] && ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
  PATH="/usr/local/cuda/bin:$PATH"
fi
step configure cmake "${configuration[@]}" || finish
if ! grep -q 'Troupe: CUDA toolkit ON' "$report/configure.log"; then
  say "the CUDA toolkit or cuDNN was not found: the GPU library cannot be built"
  failures+=(toolkit)
  finish
fi
say "CUDA: $(nvcc --version 2>/dev/null | sed -n 's/^Cuda compilation tools, //p')"
targets=(--target troupe_cuda troupe_cuda_bench troupe-bench test_kernels test_gpu_kernels test_gpu_graphs
  test_conv_engines test_devices test_actors)
[[ $all == no ]] || targets=()
step build cmake --build "$build" --parallel "$jobs" "${targets[@]}" || finish

# ---- test
selected=(-L '^test_(kernels|gpu_kernels|gpu_graphs|conv_engines|devices)$|^test_actors_')
[[ $all == no ]] || selected=()
run_tests() {
  ctest --test-dir "$build" --parallel "$jobs" --output-on-failure --timeout 600 --no-tests=error "${selected[@]}"
}
if [[ $tests == yes ]]; then
  step test run_tests
  # "…tests passed, 2 tests failed out of 731", and a line "…(Skipped)" for each skipped test.
  total="$(sed -n 's/.*tests failed out of \([0-9]*\).*/\1/p' "$report/test.log" | tail -n 1)"
  failed="$(sed -n 's/.* \([0-9]*\) tests\{0,1\} failed out of .*/\1/p' "$report/test.log" | tail -n 1)"
  skipped="$(grep -c '\*\*\*Skipped' "$report/test.log" || true)"
  # A GPU shown by nvidia-smi that Troupe cannot use is a failure.
  [[ -z "$gpus" ]] || ! grep -q ' gpu_kernels .*\*\*\*Skipped' "$report/test.log" || unused
  say "tests: ${total:-0} run, ${failed:-0} failed, ${skipped:-0} skipped"
  printf '{"step":"tests","total":%d,"failed":%d,"skipped":%d}\n' "${total:-0}" "${failed:-0}" "${skipped:-0}" \
    >>"$lines"
fi

# ---- measure
program="$build/bin/troupe-bench"
bench_arguments+=(--python "$python")
if [[ $bench == yes ]]; then
  begin "bench; progress in $report/bench.log"
  : >"$report/bench.jsonl"
  ok=true
  "$program" --device gpu --results "$report/bench.jsonl" "${bench_arguments[@]}" 2>"$report/bench.log" |
    tee -a "$text" || ok=false
  ended bench $ok "$report/bench.log"
  cat "$report/bench.jsonl" >>"$lines"
  aimed="$(grep -c '"met":[tf]' "$report/bench.jsonl" || true)"
  below="$(grep -c '"met":false' "$report/bench.jsonl" || true)"
  [[ -z "$gpus" || $ok == false || -s "$report/bench.jsonl" ]] || unused
fi
finish
