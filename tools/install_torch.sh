#!/bin/sh
# tools/install_torch.sh FOLDER REQUIREMENTS: puts PyTorch and what else REQUIREMENTS lists into a virtual environment in
# FOLDER. Does nothing if it is there in the versions wanted.
set -eu

folder="${1:?usage: tools/install_torch.sh FOLDER REQUIREMENTS}"
wanted="${2:?usage: tools/install_torch.sh FOLDER REQUIREMENTS}"
marker="$folder/installed-$(basename "$(dirname "$wanted")").txt"
if cmp -s "$wanted" "$marker"; then
  exit 0
fi
echo "torch: installing $(tr '\n' ' ' <"$wanted")into $folder"
test -x "$folder/bin/python" || python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
cp "$wanted" "$marker"
