#!/bin/sh
# tests/fuzz/run.sh BUILD SECONDS: looks for inputs that end a target, SECONDS for each, beginning with the regression
# corpus and what earlier runs found in BUILD/corpus. Prints how many inputs were run; fails if one ended a target, which
# then lies in BUILD/found.
set -u

build="${1:?usage: tests/fuzz/run.sh BUILD SECONDS}"
seconds="${2:?usage: tests/fuzz/run.sh BUILD SECONDS}"
here="$(dirname "$0")"
mkdir -p "$build/found"
failed=0
for target in pt2 onnx plan cluster; do
  mkdir -p "$build/corpus/$target"
  ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0 "$build/bin/fuzz_$target" -max_total_time="$seconds" -timeout=25 \
    -rss_limit_mb=4096 -max_len=300000 -len_control=0 -artifact_prefix="$build/found/${target}_" \
    "$build/corpus/$target" "$here/corpus/$target" >"$build/fuzz_$target.log" 2>&1 || failed=1
  echo "$target: $(grep -E '^Done|^SUMMARY|^#[0-9]+.*(pulse|NEW|REDUCE)' "$build/fuzz_$target.log" | tail -1)"
done
exit $failed
