// Every kernel's arithmetic, on the host, against what the op families say that their ops mean: on the cases of the
// families (cases.txt in each one's folder), forward and backward, and on those of kernel_cases.h and
// more_kernel_cases.h; with operands that lie row by row, and with operands whose dimensions lie the other way round, or
// in another order. The same on a GPU where there is one.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "converted.h"
#include "gpu.h"
#include "guarded_kernel.h"
#include "host_product.h"
#include "kernel_cases.h"
#include "kernels/kernel.h"
#include "meshwright/backend.h"
#include "meshwright/interpret.h"
#include "meshwright/plugin.h"
#include "meshwright/training_graph.h"
#include "more_kernel_cases.h"
#include "op_case.h"
#include "op_writer.h"

namespace meshwright::cuda {
namespace {

// All families, as the program loads them.
class LoadedFamilies final : public OpTable {
 public:
  LoadedFamilies() {
    for (const auto& entry : std::filesystem::directory_iterator(OP_PLUGINS)) {
      if (entry.path().extension() != ".so") continue;
      void* library = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) ADD_FAILURE() << dlerror();
      const auto* plugin = reinterpret_cast<const meshwright_plugin_v1* (*)()>(dlsym(library, "meshwright_plugin"))();
      Error error;
      const Family& family =
          families_.emplace_back(static_cast<OpFamily*>(plugin->create(Config(), error)), plugin->destroy);
      for (const char* const* op = plugin->serves; op != nullptr && *op != nullptr; ++op) by_op_[*op] = family.get();
    }
  }
  [[nodiscard]] const OpFamily* find(std::string_view op) const override {
    const auto found = by_op_.find(op);
    return found == by_op_.end() ? nullptr : found->second;
  }

 private:
  using Family = std::unique_ptr<OpFamily, void (*)(void*)>;
  std::vector<Family> families_;
  std::map<std::string, const OpFamily*, std::less<>> by_op_;
};

constexpr std::size_t kMemory = std::size_t{1} << 17U;

// A device's memory, and what is in it on the host; `device`: where it lies, null: on the host itself.
class Memory {
 public:
  explicit Memory(std::byte* device)
      : block_(kMemory, std::byte{0xff}), begin_(device != nullptr ? device : block_.data()) {}

  std::byte* take(std::size_t bytes) {
    std::byte* taken = begin_ + used_;
    used_ += (bytes + 255) / 256 * 256;
    EXPECT_LE(used_, block_.size());
    return taken;
  }
  std::byte* on_host(const std::byte* at) { return block_.data() + (at - begin_); }
  std::vector<std::byte>& block() { return block_; }

 private:
  std::vector<std::byte> block_;
  std::byte* begin_;
  std::size_t used_ = 0;
};

// How operands lie: row by row; the first dimension innermost and the last outermost; or with the two before the last
// exchanged, as heads and positions are.
enum class Lie { rows, turned, exchanged };
constexpr const char* kLies[] = {"", ", turned", ", with dimensions exchanged"};

bool has_exchanged(const std::vector<Tensor>& tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& tensor) { return tensor.type().rank() > 2; });
}

// A copy of a tensor there.
Seen place(const Tensor& tensor, Lie lie, Memory& memory) {
  Seen seen = seen_at(memory.take(tensor.bytes().size()), tensor.type());
  if (const std::size_t rank = seen.strides.size(); lie == Lie::exchanged && rank > 2) {
    seen.strides[rank - 3] = tensor.shape()[rank - 1];
    seen.strides[rank - 2] = tensor.shape()[rank - 1] * tensor.shape()[rank - 3];
  }
  if (lie == Lie::turned) {
    std::int64_t stride = 1;
    for (std::size_t d = 0; d < seen.strides.size(); ++d) {
      seen.strides[d] = stride;
      stride *= tensor.shape()[d];
    }
  }
  const std::vector<std::int64_t> own = strides_of(tensor.shape());
  const std::size_t size = seen.element_bytes();
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < own.size(); ++d) at += i / own[d] % tensor.shape()[d] * seen.strides[d];
    std::copy_n(tensor.bytes().data() + static_cast<std::size_t>(i) * size, size,
                memory.on_host(seen.data) + static_cast<std::size_t>(at) * size);
  }
  return seen;
}

// bfloat16 has 8 bits; `between`: what the op keeps of its own is rounded to them, too, and numbers about as large as 1
// are summed of it.
bool is_close(double made, double expected, DType dtype, bool between) {
  if (std::isnan(expected)) return std::isnan(made);
  if (made == expected) return true;
  if (dtype == DType::bfloat16)
    return std::abs(made - expected) <= 0x1p-8 * std::abs(expected) + (between ? 0x1p-6 : 1e-5);
  const double tolerance = dtype == DType::float64 ? 1e-11 : dtype == DType::float32 ? 1e-5 : 0;
  return std::abs(made - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

// What libraries compute; the families' cases are of float64.
OpCase in_float32(OpCase op_case) {
  for (Value& value : op_case.graph.values) {
    if (value.type.dtype == DType::float64) value.type.dtype = DType::float32;
  }
  return op_case;
}

TensorType in_half(TensorType type) {
  if (type.dtype == DType::float32) type.dtype = DType::bfloat16;
  return type;
}

Tensor draw(const LocalCase::Drawn& drawn) {
  Tensor tensor(drawn.type);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double wave = std::sin(1.0 + 7.0 * static_cast<double>(i));
    const bool is_masked = drawn.below == LocalCase::Drawn::kMasked && i % 3 == 0;
    tensor.set(i, !drawn.given.empty() ? drawn.given[static_cast<std::size_t>(i)]
                  : is_masked          ? -INFINITY
                  : drawn.below > 0    ? static_cast<double>(i % drawn.below)
                  : drawn.below < 0    ? wave
                                       : 1 + wave / 2);
  }
  return tensor;
}

class Kernels : public testing::Test {
 protected:
  static std::size_t workspace_of(const ProductShape&) { return 192; }
  static std::size_t workspace_of(const DnnGraph& graph) { return std::max<std::size_t>(192, graph.kernel_bytes); }
  // On the host all products are the library's, on a GPU those whose workspace has room here.
  LibraryPlans library() {
    const auto plan = [this](const auto& wanted) -> Result<std::optional<std::size_t>> {
      if (gpu_ == nullptr) return std::optional(workspace_of(wanted));
      Result<std::optional<std::size_t>> workspace = plan_workspace(gpu_->driver(), wanted);
      const bool is_small = workspace && *workspace && **workspace <= kMemory / 8;
      return workspace && !is_small ? std::optional<std::size_t>() : workspace;
    };
    return {plan, plan};
  }

  // Runs the node by its kernels, and by the library's products as well where it has some. Nothing is said of calls
  // that they refuse.
  void compare(const Graph& graph, const Node& node, const std::vector<Tensor>& values, const std::string& where) {
    const WriteOp write = find_op(node.op);
    if (write == nullptr) return;
    OpCall call = make_call(graph, node);
    std::vector<Tensor> given, expected;
    for (const Operand& operand : node.operands) given.push_back(values[operand.value]);
    for (const ValueId result : node.results) expected.push_back(values[result]);
    if (in_half_ && !round(call, given, expected)) return;
    for (const Lie lie : {Lie::rows, Lie::turned, Lie::exchanged}) {
      if (lie == Lie::exchanged && !has_exchanged(given)) continue;
      for (const LibraryPlans& plans : {LibraryPlans(), library()}) {
        Memory memory(gpu_ == nullptr ? nullptr : gpu_->memory());
        std::vector<Seen> operands, results;
        for (const Tensor& tensor : given) operands.push_back(place(tensor, lie, memory));
        for (const TensorType& type : call.results)
          results.push_back(seen_at(memory.take(static_cast<std::size_t>(type.bytes())), type));
        std::vector<Work> work;
        OpWriter writer(
            call, views_, plans, operands, results, [&](std::size_t bytes) { return memory.take(bytes); }, work);
        if (lie == Lie::turned) writer.scores_bytes = 1;
        if (const Status written = write(writer); !written) {
          EXPECT_EQ(written.error().code, ErrorCode::bad_input) << where << ": " << written.error().message;
          return;
        }
        run(work, memory, node.op, where);
        const std::string what =
            where + ", " + node.op + kLies[static_cast<std::size_t>(lie)] + (plans.product ? ", by a library" : "");
        for (std::size_t i = 0; i < results.size(); ++i) {
          const auto bytes = static_cast<std::size_t>(call.results[i].bytes());
          const Tensor made = converted(Tensor::in({memory.on_host(results[i].data), bytes}, call.results[i]),
                                        expected[i].type().dtype);
          const Result<Sizes> sizes = sizes_for(call.results[i].shape);
          ASSERT_TRUE(sizes);
          for (std::int64_t at = 0; at < made.elements(); ++at) {
            const double number = made.get(offset_of(*sizes, writer.results[i].strides.data(), at));
            ASSERT_TRUE(is_close(number, expected[i].get(at), call.results[i].dtype,
                                 rounds_between(node.op, plans.dnn != nullptr)))
                << what << ": element " << at << " of result " << i << " is " << number << ", and should be "
                << expected[i].get(at);
          }
        }
      }
    }
    compared_.insert(node.op);
  }

  // The same call in half precision: what the family says of operands that are rounded. False: it computes no such
  // call.
  static bool round(OpCall& call, std::vector<Tensor>& given, std::vector<Tensor>& expected) {
    std::vector<const Tensor*> operands;
    std::vector<Tensor> halves;
    for (Tensor& tensor : given) {
      halves.push_back(converted(tensor, in_half(tensor.type()).dtype));
      tensor = converted(halves.back(), tensor.type().dtype);
      operands.push_back(&tensor);
    }
    Result<std::vector<Tensor>> computed = meshwright::compute(call, operands, families(), nullptr);
    if (!computed) return false;
    expected = std::move(*computed);
    given = std::move(halves);
    for (std::vector<TensorType>* types : {&call.operands, &call.results}) {
      for (TensorType& type : *types) type = in_half(type);
    }
    return true;
  }

  // The weights of attention, what experts and recurrent layers save for their gradients and make on their way there,
  // and what a library's convolution makes before the bias is added.
  static bool rounds_between(const std::string& op, bool by_library) {
    return op.find("attention") != std::string::npos || op.starts_with("meshwright.experts") ||
           op.starts_with("meshwright.recurrent") || (by_library && op.find("conv") != std::string::npos);
  }

  void run(const std::vector<Work>& work, Memory& memory, const std::string& op, const std::string& where) {
    for (const Work& each : work) {
      if (!std::holds_alternative<Launch>(each)) multiplied_.insert(op);
    }
    if (gpu_ != nullptr) {
      const Status done = gpu_->run(work, memory.block());
      ASSERT_TRUE(done) << where << ": " << done.error().message;
      return;
    }
    const std::span<std::byte> block = memory.block();
    for (const Work& each : work) {
      const auto* product = std::get_if<Product>(&each);
      const auto* call = std::get_if<DnnCall>(&each);
      const std::vector<Launch> launches = product != nullptr ? std::vector{launch_of(*product)}
                                           : call != nullptr  ? call->kernels
                                                              : std::vector{std::get<Launch>(each)};
      for (const Launch& launch : launches) EXPECT_EQ(run_guarded(launch, {&block, 1}), "") << where;
    }
  }

  // All of them.
  void compare_families() {
    for (const auto& entry : std::filesystem::directory_iterator(OP_PLUGINS)) {
      if (entry.path().string().ends_with(".cases.txt")) compare_cases(entry.path());
    }
    for (const LocalCase& local : local_cases()) compare_local(local);
    for (const LocalCase& local : more_local_cases()) compare_local(local);
    for (const std::string_view op : kOps) EXPECT_TRUE(compared_.contains(op)) << op << " was compared nowhere";
    for (const std::string_view op : kMoreOps) EXPECT_TRUE(compared_.contains(op)) << op << " was compared nowhere";
    for (const char* op :
         {"aten.mm", "aten.bmm", "aten.matmul", "aten.addmm", "aten.baddbmm", "aten.linear",
          "aten.scaled_dot_product_attention", "meshwright.attention_backward", "aten.conv2d",
          "aten.convolution_backward", "aten.conv_transpose2d.input", "meshwright.convolution_backward_weight"})
      EXPECT_TRUE(multiplied_.contains(op)) << op << " is left to this backend's own kernel";
  }

  void compare_cases(const std::string& file) {
    const Result<std::vector<OpCase>> cases = read_op_cases(file);
    ASSERT_TRUE(cases) << cases.error().message;
    const std::size_t given = cases->size();
    for (std::size_t i = in_half_ ? given : 0; i < 2 * given; ++i) {
      const OpCase op_case = i < given ? (*cases)[i] : in_float32((*cases)[i - given]);
      const std::string where = file.substr(file.rfind('/') + 1) + ", block " + std::to_string(op_case.number);
      if (has_complex(make_call(op_case.graph, op_case.graph.nodes[0]))) continue;
      std::map<ValueId, Tensor> sources = draw_sources(op_case, 1);
      const Graph forward = with_loss(op_case, sources);
      const Result<TrainingGraph> training = differentiate(forward, families());
      const Graph& graph = training ? training->graph : op_case.graph;
      const Result<std::vector<Tensor>> values = interpret(graph, families(), sources);
      if (!values) continue;  // nobody here computes it
      for (const Node& node : graph.nodes) compare(graph, node, *values, where);
    }
  }

  void compare_local(const LocalCase& local) {
    Graph graph;
    Node& node = graph.nodes.emplace_back();
    node.op = local.op;
    node.attributes = local.attributes;
    std::map<ValueId, Tensor> sources;
    for (const LocalCase::Drawn& drawn : local.operands) {
      const auto id = static_cast<ValueId>(graph.values.size());
      graph.values.push_back({drawn.name, drawn.type, kNoId, false});
      graph.sources.push_back({SourceKind::user_input, id, {drawn.name}});
      node.operands.push_back({drawn.name, id});
      sources.emplace(id, draw(drawn));
    }
    std::vector<TensorType> results = local.more_results;
    results.insert(results.begin(), local.result);
    for (const TensorType& type : results) {
      node.results.push_back(static_cast<ValueId>(graph.values.size()));
      graph.values.push_back({"result", type, 0, false});
    }
    const Result<std::vector<Tensor>> values = interpret(graph, families(), sources);
    ASSERT_TRUE(values) << local.op << ": " << values.error().message;
    compare(graph, node, *values, "a case of this file");
  }

  static const OpTable& families() {
    static const LoadedFamilies all;
    return all;
  }

  Gpu* gpu_ = nullptr;    // the kernels run on it; null: on the host
  bool in_half_ = false;  // what is float32 is bfloat16
  ViewFinder views_{families()};
  std::set<std::string, std::less<>> compared_, multiplied_;  // the latter by a library's products
};

TEST_F(Kernels, ComputeWhatTheFamiliesMean) { compare_families(); }

TEST_F(Kernels, ComputeItInHalfPrecision) {
  in_half_ = true;
  compare_families();
}

TEST_F(Kernels, ComputeItOnAGpu) {
  Gpu gpu(kMemory);
  const Status opened = gpu.open();
  if (Gpu::is_absent(opened)) GTEST_SKIP() << opened.error().message;
  ASSERT_TRUE(opened) << opened.error().message;
  gpu_ = &gpu;
  for (const bool in_half : {false, true}) {
    in_half_ = in_half;
    compare_families();
  }
}

TEST_F(Kernels, CountElementsAsTensorsDo) {
  EXPECT_EQ(static_cast<int>(Element::float32), static_cast<int>(DType::float32));
  EXPECT_EQ(static_cast<int>(Element::bfloat16), static_cast<int>(DType::bfloat16));
  EXPECT_EQ(static_cast<int>(Element::boolean), static_cast<int>(DType::boolean));
  EXPECT_EQ(static_cast<int>(Element::int64), static_cast<int>(DType::int64));
}

// CUDA passes 4 KiB at most.
TEST_F(Kernels, HaveArgumentsThatALaunchCanCarry) {
  for (const Kernel& kernel : kernels()) EXPECT_LE(kernel.argument_bytes, 4096U - sizeof(std::int64_t)) << kernel.name;
}

TEST_F(Kernels, RefuseTypesThatTheyDoNotCompute) {
  const Result<Element> element = element_for(DType::float16);
  ASSERT_FALSE(element);
  EXPECT_EQ(element.error().message, "kernels of cuda do not compute float16 yet");
  EXPECT_EQ(find_op("aten.fft_fft2"), nullptr);
}

}  // namespace
}  // namespace meshwright::cuda
