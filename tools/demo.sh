#!/usr/bin/env bash
# The demo: builds the programs it needs, then trains on the built-in digits with a real cluster of four processes on
# this machine, two parameter servers and two workers. Arguments are passed to troupe-mnist, e.g. --epochs 2 or --model
# cnn.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ "${1:-}" == --help || "${1:-}" == -h ]]; then
  echo "Usage: tools/demo.sh [OPTIONS OF troupe-mnist]"
  echo "Sets up, builds, and trains on the built-in digits with 2 parameter servers and 2 workers. Ctrl-C ends it."
  exit 0
fi

tools/setup.sh
echo "demo: building (a few minutes the first time)"
cmake --preset release --log-level=WARNING >/dev/null
cmake --build build/release --parallel "$(nproc)" --target troupe-launch troupe-mnist

bin=build/release/bin
command=("$bin/troupe-launch" --ps 2 --workers 2 -- troupe-mnist --mode sync --epochs 5 --batch 32 "$@")
printf '\ndemo: %s\n' "${command[*]}"

# Ctrl-C reaches both the launcher and this script, which keeps waiting for an orderly end; other signals are forwarded.
# No task outlives the launcher.
"${command[@]}" &
launcher=$!
interrupted=0
trap 'interrupted=130' INT
trap 'interrupted=143; kill -TERM "$launcher" 2>/dev/null || true' TERM HUP
code=0
while true; do
  wait "$launcher" && code=0 || code=$?
  kill -0 "$launcher" 2>/dev/null || break
done
((interrupted == 0)) || exit "$interrupted"
if ((code != 0)); then
  echo "demo: ended with exit code $code" >&2
  exit "$code"
fi

cat <<TEXT

Where to look next
  $bin/troupe-mnist --help     other models and modes, your own MNIST files
  $bin/troupe-launch --help    clusters of other sizes
  README.md, docs/README.md                 next steps, how it works
TEXT
