#!/bin/sh
# tools/install_cuda.sh FOLDER [12|13]: installs what compiles the kernels of backends/cuda and runs them, NVIDIA's packages
# of PyPI, into a virtual environment in FOLDER. Does nothing if they are there in the versions wanted, or if the system has
# nvcc and the libraries; with CUDA_FROM=wheels the system's do not count. What is in FOLDER is what CMake takes.
set -eu

usage="usage: [CUDA_FROM=system|wheels] tools/install_cuda.sh FOLDER [12|13]"
folder="${1:?$usage}"
version="${2:-}"
from="${CUDA_FROM:-system}"
lists=$(dirname "$0")
case "$version:$from" in
  :system | 12:system | 13:system | :wheels | 12:wheels | 13:wheels) ;;
  *) echo "$usage" >&2; exit 2 ;;
esac

for there in ${version:-12 13}; do
  if cmp -s "$lists/cuda$there.txt" "$folder/requirements.txt"; then
    echo "cuda: $folder has CUDA $there"
    exit 0
  fi
done

# Where CMake looks for it; a test names another folder than the usual one.
nvcc=""
major=""
for found in "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" "$(command -v nvcc || true)" "${CUDA_USUAL:-/usr/local/cuda}/bin/nvcc"; do
  if [ -x "$found" ]; then
    nvcc=$found
    major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
    break
  fi
done
case "$from:$major" in
  system:12 | system:13) usual=$major ;;
  *) usual=13 ;;
esac
wanted=${version:-$usual}

# As the backend opens them.
opens() { python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" 2>/dev/null; }
missing=""
if [ "$major" != "$wanted" ]; then
  missing=" nvcc"
fi
for library in "libcudart.so.$wanted" "libcublasLt.so.$wanted" "libnvrtc.so.$wanted" libcudnn.so.9 libnccl.so.2; do
  opens "$library" || missing="$missing $library"
done
# A FOLDER of another version, or half of one, is replaced, since CMake would take it.
if [ "$from" = system ] && [ -z "$missing" ] && [ ! -e "$folder" ]; then
  echo "cuda: the system has $nvcc and the libraries, all of CUDA $wanted; nothing is installed"
  exit 0
fi

if [ "$wanted" = 12 ] && [ "$major" != 12 ]; then
  echo "cuda: of CUDA 12 PyPI has what runs kernels, not what compiles them: there is no nvcc in nvidia-cuda-nvcc-cu12." \
    "Install nvcc 12, or take 13; to run what was compiled elsewhere: pip install -r tools/cuda12.txt" >&2
  exit 1
fi
if [ "$from" = system ] && [ -n "$missing" ]; then
  echo "cuda: the system has not:$missing"
fi
echo "cuda: installing CUDA $wanted into $folder"
python3 -m venv --clear "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement "$lists/cuda$wanted.txt"
# cuBLASLt opens NVRTC by its name, and looks where it lies itself; the packages of CUDA 12 have a folder each.
for nvrtc in "$folder"/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/*.so*; do
  [ ! -e "$nvrtc" ] || ln -s "../../cuda_nvrtc/lib/${nvrtc##*/}" "${nvrtc%/cuda_nvrtc/*}/cublas/lib/"
done
cp "$lists/cuda$wanted.txt" "$folder/requirements.txt"
