#!/usr/bin/env bash
# run.sh PYTHON FILE: runs the tests of a file with pytest; 77, "skipped", if there is no pytest or no module that they
# need.
set -u
for module in pytest numpy troupe; do
  if ! "$1" -c "import $module" 2>/dev/null; then
    echo "skipped: no Python module $module (tools/setup.sh --with-python)"
    exit 77
  fi
done
"$1" -m pytest -q -rs -p no:cacheprovider --rootdir "$(dirname "$2")" "$2"
result=$?
((result != 5)) || exit 77  # no tests: a module that the file needs is missing, and pytest has said which
exit "$result"
