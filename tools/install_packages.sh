#!/bin/sh
# tools/install_packages.sh build|lint|torch|fuzz: installs the Debian packages that are missing for building and testing,
# for formatting and linting too, for a virtual environment with PyTorch too, or for fuzzing too. Does nothing, and needs no rights, if all
# are there.
set -eu

# One build folder holds the program and its tests, so configuring it looks for what the tests need too: GoogleTest, and
# Python for the architecture checks. HiGHS (tools/install_highs.sh) and PyTorch go into virtual environments. nm comes with
# g++'s binutils.
build="g++ make cmake ninja-build ccache pkg-config libboost1.74-dev liblpsolve55-dev coinor-libcbc-dev libtomlplusplus-dev libspdlog-dev
  libcli11-dev nlohmann-json3-dev libmimalloc-dev libzip-dev libprotobuf-dev protobuf-compiler libdnnl-dev libgtest-dev libgmock-dev python3 python3-venv
  binutils libopenmpi-dev openmpi-bin"
lint="$build clang-format clang-tidy"
torch="$build"
fuzz="$build clang libclang-rt-14-dev"

case "${1:-}" in
  build) wanted=$build ;;
  lint) wanted=$lint ;;
  torch) wanted=$torch ;;
  fuzz) wanted=$fuzz ;;
  *) echo "usage: tools/install_packages.sh build|lint|torch|fuzz" >&2; exit 2 ;;
esac

missing=""
for package in $wanted; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "packages: everything to $1 is there"
  exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif sudo -n true 2>/dev/null; then
  as_root="sudo"
else
  echo "packages: some to $1 are missing, and without root they can't be installed; have them installed with: apt-get install$missing" >&2
  exit 1
fi

echo "packages: reading the package lists"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
echo "packages: installing$missing"
# shellcheck disable=SC2086  # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $missing </dev/null >/dev/null
echo "packages: installed"
