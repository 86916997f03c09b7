#!/bin/sh
# bench/iopddl.sh FOLDER [PROGRAM]: the contest's instances in FOLDER (NAME.json.gz), each with the seconds of its limit
# there: 300 for U, 60 for the others. Unpacked files and answers go to build/bench.
set -eu
folder=$1
program=${2:-build/bin/meshwright}
mkdir -p build/bench
for file in "$folder"/*.json.gz; do
  name=$(basename "$file" .json.gz)
  test -f "build/bench/$name.json" || gunzip -c "$file" >"build/bench/$name.json"
  case $name in U) seconds=300 ;; *) seconds=60 ;; esac
  echo "== $name, $seconds s"
  "$program" iopddl "build/bench/$name.json" "$seconds" >"build/bench/$name.txt" || true
  sed '$d' "build/bench/$name.txt"
done
