#!/usr/bin/env bash
# Regenerates the screenshots in the docs, from live clusters on this machine where that is not said otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: tools/screenshots.sh [page] [pipelines] [serving] [terminal]

  page      the web page of a training cluster, docs/images/page.png; needs Chromium (tools/setup.sh --with-browser)
  pipelines the page's table of pipelines, docs/images/pipelines.png, of an example of a cluster with input tasks
  serving   the page of troupe-serve with requests, docs/images/serving.png; needs curl, too
  terminal  troupe-top in a terminal, docs/images/top-*.svg; needs python3

Without arguments: all of them.
TEXT
}

bin="$PWD/build/release/bin"
folder="$(mktemp -d)"
launcher=
trap 'stop_cluster; rm -rf "$folder"' EXIT

build() {
  cmake --preset release --log-level=WARNING >/dev/null
  cmake --build build/release --parallel "$(nproc)" --target "$@"
}

# Sets `launcher`, and `address` to the cluster's introspection address.
start_cluster() {
  : >"$folder/err"  # removes the address of the previous cluster
  "$bin/troupe-launch" --ps 2 --workers 3 -- troupe-mnist --model cnn --epochs 1000 --introspect-port 0 \
    >"$folder/out" 2>"$folder/err" &
  launcher=$!
  until address="$(grep -m 1 -o 'http://[^ ]*' "$folder/err")"; do
    kill -0 "$launcher" 2>/dev/null || { cat "$folder/err" >&2; exit 1; }
    sleep 0.1
  done
}

stop_cluster() {
  [[ -n "$launcher" ]] || return 0
  kill -INT "$launcher" 2>/dev/null || true
  wait "$launcher" || true
  launcher=
}

page() {
  build take_screenshot troupe-launch troupe-mnist
  start_cluster
  "$bin/take_screenshot" "$folder/page.png" --url "$address" --seconds 25 --width 1440 --height 1148 --scheme dark
  stop_cluster
  keep "$folder/page.png" docs/images/page.png
}

# Digits, a canary beside the stable version, and four clients that ask as fast as they are answered.
serving() {
  build take_screenshot troupe-mnist troupe-serve
  local seed body row port label clients=()
  for seed in 1 2; do
    "$bin/troupe-mnist" --epochs 1 --digits 640,64 --seed "$seed" --publish "$folder/models/digits" >/dev/null 2>&1
  done
  row="$(printf '[0],%.0s' {1..27})[0]"
  body="{\"instances\":[[$(printf "[$row],%.0s" {1..27})[$row]]]}"
  "$bin/troupe-serve" --model "digits=$folder/models/digits" --rest-port 0 --no-grpc --batch --json \
    >"$folder/out" 2>"$folder/err" &
  launcher=$!
  until grep -q '"ready"' "$folder/out"; do sleep 0.1; done
  port="$(grep -m 1 -o '"rest_port":[0-9]*' "$folder/out" | cut -d: -f2)"
  for label in "" "" "" /labels/canary; do
    (while curl -s -o /dev/null -d "$body" "http://127.0.0.1:$port/v1/models/digits$label:predict"; do :; done) &
    clients+=($!)
  done
  "$bin/take_screenshot" "$folder/serving.png" --url "http://127.0.0.1:$port/" --seconds 20 --width 1440 --height 900 \
    --scheme dark
  kill "${clients[@]}"
  stop_cluster
  keep "$folder/serving.png" docs/images/serving.png
}

pipelines() {
  build take_screenshot
  "$bin/take_screenshot" "$folder/pipelines.png" --inputs 2 --only '.card:has(#pipelines)' --seconds 4 --width 1300 \
    --scheme dark
  keep "$folder/pipelines.png" docs/images/pipelines.png
}

terminal() {
  build troupe-top troupe-launch troupe-mnist
  start_cluster
  tools/top/screenshot.py "$folder/summary.svg" 100x22 '25s' -- "$bin/troupe-top" "$address" --interval 0.5
  tools/top/screenshot.py "$folder/actors.svg" 120x28 '2s a >>>>>>>> 2s' -- "$bin/troupe-top" "$address"
  stop_cluster
  keep "$folder/summary.svg" docs/images/top-summary.svg
  keep "$folder/actors.svg" docs/images/top-actors.svg
}

# Limits the size, because everyone who clones the repository downloads it.
keep() {
  local most=300000 bytes
  bytes="$(stat --format=%s "$1")"
  ((bytes <= most)) || { echo "screenshots: $2 would have $bytes bytes; the limit is $most" >&2; exit 1; }
  mv "$1" "$2"
  echo "screenshots: $2, $bytes bytes"
}

(($# > 0)) || set -- page pipelines serving terminal
for name in "$@"; do
  case "$name" in
    page | pipelines | serving | terminal) "$name" ;;
    --help | -h) usage; exit 0 ;;
    *) echo "screenshots: unknown argument $name; see tools/screenshots.sh --help" >&2; exit 2 ;;
  esac
done
