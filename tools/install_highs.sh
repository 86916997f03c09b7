#!/bin/sh
# tools/install_highs.sh FOLDER: installs HiGHS, which intra/ilp_highs and checkpoint/checkmate need and Debian 12 does
# not have, into a virtual environment in FOLDER. Does nothing if it is there in the version wanted. What can't be had is
# left out, and said: all other plugins are built without it.
set -eu

folder="${1:?usage: tools/install_highs.sh FOLDER}"
wanted="$(dirname "$0")/../sdk/search/highs_engine/requirements.txt"
if cmp -s "$wanted" "$folder/requirements.txt"; then
  exit 0
fi

left_out() {
  echo "highs: $1; intra/ilp_highs and checkpoint/checkmate are left out" >&2
  exit 0
}
echo "highs: installing $(cat "$wanted") into $folder"
python3 -m venv --clear "$folder" || left_out "no virtual environment can be made (install python3-venv)"
"$folder/bin/pip" install --quiet --disable-pip-version-check --retries 2 --timeout 20 --only-binary :all: --requirement "$wanted" \
  || left_out "its package can't be installed"
cp "$wanted" "$folder/requirements.txt"
