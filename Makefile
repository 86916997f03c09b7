# A thin front door: each target installs what is missing and calls CMake. The work is described in CMakeLists.txt.
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=

DEMO_MODEL ?= examples/gpt2_small.pt2
DEMO_OPTIONS ?= --cluster configs/clusters/a100x8_nvlink_pairs.toml --config configs/demo.toml
DEMO_OUTPUT ?= $(BUILD)/demo/plan.json
# Small enough that a CPU runs it in seconds.
DEMO_VERIFIED ?= examples/gpt2_mini.pt2

.PHONY: configure build cuda demo test nightly fuzz test-torch zoo models saved-bytes search-times step-gaps step-rivals recompute-stories recompute-rivals tap-figures test-onnx bench checkpoint-chain iopddl fmt lint

configure: packages-build
	@./tools/install_highs.sh $(BUILD)/highs
	@echo "configure: $(BUILD)"
	@cmake -G Ninja -S . -B $(BUILD) -DBUILD_TESTING=ON $(CMAKE_FLAGS) --log-level=WARNING

build: configure
	@echo "build: compiling the program and its plugins"
	@cmake --build $(BUILD) --parallel $(JOBS) --target meshwright meshwright_plugins
	@echo "build: $(BUILD)/bin/meshwright is ready"

# The build with kernels for GPUs: what the system lacks of CUDA is installed into $(BUILD)/cuda. CUDA=12 or 13 asks for one of them,
# CUDA_FROM=wheels for PyPI's wherever it is.
CUDA ?=
CUDA_FROM ?= system
cuda: packages-build
	@CUDA_FROM=$(CUDA_FROM) ./tools/install_cuda.sh $(BUILD)/cuda $(CUDA)
	@$(MAKE) --no-print-directory build
	@sed -n 's/^MESHWRIGHT_NVCC:INTERNAL=/cuda: /p' $(BUILD)/CMakeCache.txt

# Compiles what it loads; `make build` compiles all.
demo: configure
	@echo "demo: compiling the program and the plugins that the demo loads"
	@cmake --build $(BUILD) --parallel $(JOBS) --target meshwright_demo
	@echo "demo: $(BUILD)/bin/meshwright plan $(DEMO_MODEL) $(DEMO_OPTIONS) -o $(DEMO_OUTPUT)"
	@$(BUILD)/bin/meshwright plan $(DEMO_MODEL) $(DEMO_OPTIONS) -o $(DEMO_OUTPUT)
	@echo "demo: the plan of a smaller one, $(DEMO_VERIFIED), is run on simulated ranks and compared with one device"
	@$(BUILD)/bin/meshwright plan $(DEMO_VERIFIED) $(DEMO_OPTIONS) --set train.param_dtype=exported -o $(DEMO_OUTPUT:.json=_verified.json) >/dev/null
	@$(BUILD)/bin/meshwright verify $(DEMO_OUTPUT:.json=_verified.json)

test: build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "test: compiling the tests"
	@cmake --build $(BUILD) --parallel $(JOBS)
	@echo "test: running them"
	@cd $(BUILD) && ctest --output-on-failure --parallel $(JOBS)

# The same in a build of its own, with what takes longer than a change should wait for, and each source compiled alone.
nightly:
	@$(MAKE) test BUILD=$(BUILD)-nightly CMAKE_FLAGS="$(CMAKE_FLAGS) -DMESHWRIGHT_NIGHTLY=ON -DMESHWRIGHT_PRECOMPILE=OFF"

# Files that no exporter wrote, with libFuzzer and sanitizers: so many seconds for each of four formats.
FUZZ_SECONDS ?= 600
FUZZ_BUILD ?= $(BUILD)-fuzz
fuzz: packages-fuzz
	@./tools/install_highs.sh $(FUZZ_BUILD)/highs
	@echo "fuzz: compiling with clang, which takes a while"
	@cmake -G Ninja -S . -B $(FUZZ_BUILD) -DBUILD_TESTING=ON -DMESHWRIGHT_FUZZ=ON -DCMAKE_BUILD_TYPE=None -DMESHWRIGHT_PLAIN_GEMM=ON \
	  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_STANDARD_LIBRARIES=-Wl,-z,undefs \
	  -DCMAKE_CXX_FLAGS="-O1 -g1 -w -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined" --log-level=WARNING
	@cmake --build $(FUZZ_BUILD) --parallel $(JOBS) --target meshwright_plugins fuzz_pt2 fuzz_onnx fuzz_plan fuzz_cluster
	@tests/fuzz/run.sh $(FUZZ_BUILD) $(FUZZ_SECONDS)

# Op families against PyTorch, which is large: it goes into a virtual environment under $(BUILD).
test-torch: packages-torch build
	@echo "test-torch: compiling what prints our side"
	@cmake --build $(BUILD) --parallel $(JOBS) --target print_gradient_cases serial_gradients
	@./tools/install_torch.sh $(BUILD)/torch tests/gradients/requirements.txt
	@echo "test-torch: comparing"
	@$(BUILD)/bin/print_gradient_cases >$(BUILD)/gradient_cases.json
	@$(BUILD)/torch/bin/python tests/gradients/compare_with_pytorch.py <$(BUILD)/gradient_cases.json
	@$(BUILD)/torch/bin/python tests/gradients/compare_models.py $(BUILD)/bin/serial_gradients

# Translations of ONNX ops against the ONNX project's reference implementation.
test-onnx: packages-torch build
	@echo "test-onnx: installing onnx into $(BUILD)/onnx"
	@test -x $(BUILD)/onnx/bin/python || python3 -m venv $(BUILD)/onnx
	@$(BUILD)/onnx/bin/pip install --quiet --requirement tests/onnx/requirements.txt
	@echo "test-onnx: comparing"
	@$(BUILD)/onnx/bin/python tests/onnx/compare_with_reference.py $(BUILD)/bin/meshwright

# The zoo, full-sized and small: exported, planned on 8 and 2x4, verified.
zoo: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "zoo: exporting, planning, verifying"
	@$(BUILD)/torch/bin/python tests/zoo/zoo.py --program $(BUILD)/bin/meshwright -o $(BUILD)/zoo $(ZOO_OPTIONS)

# One step of 300 models of transformers, torchvision and timm, drawn, on two ranks against one device; a table.
models: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "models: training"
	@$(BUILD)/torch/bin/python tests/families/run.py --program $(BUILD)/bin/meshwright --draw 300 $(MODELS_OPTIONS)

# What the zoo's forwards save for their backwards, against PyTorch's autograd.
saved-bytes: packages-torch build
	@echo "saved-bytes: compiling what prints our side"
	@cmake --build $(BUILD) --parallel $(JOBS) --target print_saved_bytes
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "saved-bytes: exporting and comparing"
	@$(BUILD)/torch/bin/python tests/zoo/compare_saved.py --fake --program $(BUILD)/bin/print_saved_bytes -o $(BUILD)/zoo
	@$(BUILD)/torch/bin/python tests/zoo/compare_saved.py --program $(BUILD)/bin/print_saved_bytes -o $(BUILD)/zoo vgg16 resnet50 vit gpt2

# Whole plans of large models.
search-times: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "search-times: exporting and planning"
	@$(BUILD)/torch/bin/python bench/search/search.py --runs 2 --program $(BUILD)/bin/meshwright -o $(BUILD)/zoo

# How near the steps of the zoo's plans are to their bounds.
step-gaps: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "step-gaps: exporting and planning"
	@$(BUILD)/torch/bin/python bench/search/steps.py --program $(BUILD)/bin/meshwright -o $(BUILD)/zoo

# Whether any plan that is found another way has a shorter step.
step-rivals: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "step-rivals: exporting and planning"
	@$(BUILD)/torch/bin/python bench/search/rivals.py --program $(BUILD)/bin/meshwright -o $(BUILD)/zoo

# What does not fit, made to: Llama on H100s; and what recomputing costs in layers, beside what was measured.
recompute-stories: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "recompute-stories: exporting and planning"
	@$(BUILD)/torch/bin/python bench/recompute/stories.py --program $(BUILD)/bin/meshwright -o $(BUILD)/recompute
	@$(BUILD)/torch/bin/python bench/recompute/layers.py --program $(BUILD)/bin/meshwright -o $(BUILD)/recompute

# MAP's two stages with each solver of chains, and ours, over the zoo at five budgets each, which takes long; RIVALS="gpt2 bert" names models.
RIVALS ?=
recompute-rivals: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "recompute-rivals: exporting and planning"
	@$(BUILD)/torch/bin/python bench/recompute/rivals.py --program $(BUILD)/bin/meshwright --zoo $(BUILD)/zoo -o $(BUILD)/recompute $(RIVALS)

# TAP's Figures 7, 9 and 10, with --intra tap.
tap-figures: packages-torch build
	@./tools/install_torch.sh $(BUILD)/torch tests/zoo/requirements.txt
	@echo "tap-figures: exporting and planning"
	@$(BUILD)/torch/bin/python bench/tap/tap.py --program $(BUILD)/bin/meshwright -o $(BUILD)/zoo

bench: build
	@echo "bench: compiling the benchmarks"
	@cmake -S . -B $(BUILD) -DMESHWRIGHT_BENCH=ON --log-level=WARNING
	@cmake --build $(BUILD) --parallel $(JOBS) --target meshwright_bench
	@$(BUILD)/bin/meshwright_bench

# The checkpoint solvers on chains of CHAIN_STAGES stages, in CHAIN_SLOTS slots of memory.
CHAIN_STAGES ?= 400
CHAIN_SLOTS ?= 500
checkpoint-chain: configure
	@echo "checkpoint-chain: compiling the solvers and the benchmark"
	@cmake -S . -B $(BUILD) -DMESHWRIGHT_BENCH=ON --log-level=WARNING
	@cmake --build $(BUILD) --parallel $(JOBS) --target meshwright_chain_bench
	@$(BUILD)/bin/meshwright_chain_bench $(CHAIN_STAGES) $(CHAIN_SLOTS)

# The instances of the contest on intra-operator parallelism, where they have been put: IOPDDL=FOLDER.
iopddl: build
	@bench/iopddl.sh $(IOPDDL) $(BUILD)/bin/meshwright

fmt: packages-lint
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i
	@echo "fmt: done"

lint: packages-lint build
	@git ls-files '*.cpp' | xargs clang-tidy -p $(BUILD) --quiet

packages-%:
	@./tools/install_packages.sh $*
