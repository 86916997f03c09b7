// Chains compiled by themselves against the kernel that does all of them: their text is compiled for the host by the
// compiler that built this test, and for GPUs by NVRTC where the machine has it.
#include "chain_source.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "chains.h"
#include "gpu.h"
#include "loaded_compiler.h"

namespace meshwright::cuda {
namespace {

constexpr std::int64_t kElements = 21;  // two threads have all that they can take, a third one less
constexpr std::size_t kSlot = 96;       // bytes: room for so many floats, at multiples of 16
constexpr std::size_t kSlots = 6;

struct Memory {
  alignas(16) std::array<std::byte, kSlot * kSlots> bytes{};

  void fill() {
    for (std::size_t n = 0; n < bytes.size() / 2; ++n)
      store(bytes.data(), Element::bfloat16, static_cast<std::int64_t>(n), 0.25 + 0.125 * static_cast<double>(n % 7));
  }
};

// Those that a GPU rounds as a CPU does.
bool is_exact(Function function) {
  return function == Function::add || function == Function::subtract || function == Function::multiply ||
         function == Function::negate || function == Function::maximum || function == Function::minimum ||
         function == Function::relu || function == Function::choose || function == Function::mask_number;
}

// Chains of functions that are drawn, of which places overlap as `joined` lets them. The same for every memory.
class ChainDrawer {
 public:
  explicit ChainDrawer(std::byte* memory, bool exactly) : memory_(memory), exactly_(exactly) {}

  Launch draw() {
    std::optional<Launch> chain;
    sizes_ = below(2) == 0 ? Sizes{1, {kElements}} : Sizes{2, {kRows, kTogether}};
    View last = place();
    results_.clear();
    const std::size_t links = 1 + below(8);
    for (std::size_t l = 0; l < links; ++l) {
      const PointwiseArguments arguments = link(last);
      const std::optional<Launch> next = chain_of(arguments, sizes_.rank == 1 ? kElements : kRows * kTogether);
      if (!next) continue;
      const std::optional<Launch> both = chain ? joined(*chain, *next) : next;
      if (!both) continue;
      chain = both;
      if (below(3) == 0) keep_in_registers(*chain, static_cast<const std::byte*>(last.data));
      last = arguments.result;
      results_.push_back(last);
    }
    if (!chain) return draw();
    const ChainArguments made = arguments_of(*chain);  // of which links read some that are not directly before them
    keep_in_registers(*chain,
                      static_cast<const std::byte*>(made.link[below(static_cast<std::size_t>(made.links))].result));
    return *chain;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  View place() {
    constexpr Element kElementsOf[] = {Element::bfloat16, Element::bfloat16, Element::float32, Element::boolean};
    View view;
    view.data = memory_ + below(kSlots) * kSlot;
    view.element = kElementsOf[below(4)];
    view.strides[sizes_.rank - 1] = 1;
    if (sizes_.rank == 2) view.strides[0] = kTogether;
    return view;
  }
  // Or repeated by row or in each, or one number for all; or every second row of something.
  View operand_place() {
    View view = place();
    if (below(2) == 0) return view;
    view.strides[0] = sizes_.rank == 1 ? 0 : static_cast<std::int64_t>(below(3)) * kTogether;
    if (sizes_.rank == 2 && view.strides[0] == kTogether) view.strides[1] = 0;
    if (view.strides[0] > kTogether) view.data = memory_;
    return view;
  }
  PointwiseArguments link(const View& last) {
    PointwiseArguments arguments;
    do {
      arguments.function = static_cast<Function>(below(static_cast<std::size_t>(Function::cosine) + 1));
    } while (!is_chained(arguments.function) || (exactly_ && !is_exact(arguments.function)));
    arguments.operands = 1 + static_cast<int>(below(3));
    arguments.number = 0.5 * static_cast<double>(1 + below(4));
    arguments.other = 0.25 * static_cast<double>(below(5));
    arguments.sizes = sizes_;
    for (View& operand : arguments.operand) operand = below(3) == 0 ? operand_place() : last;
    arguments.operand[1] = results_.empty() || below(2) == 0 ? operand_place() : results_[below(results_.size())];
    arguments.result = place();
    return arguments;
  }

  static constexpr std::int64_t kRows = 3;

  std::byte* memory_;
  const bool exactly_;
  Sizes sizes_;
  std::vector<View> results_;  // of the chain that is drawn
  std::mt19937 random_{11};
};

std::vector<Launch> drawn(std::byte* memory, std::size_t count, bool exactly = false) {
  ChainDrawer drawer(memory, exactly);
  std::vector<Launch> chains;
  for (std::size_t i = 0; i < count; ++i) chains.push_back(drawer.draw());
  return chains;
}

std::string source_of(const std::vector<Launch>& chains) {
  std::vector<std::string> shapes;
  for (const Launch& chain : chains) shapes.push_back(chain_shape(arguments_of(chain)));
  return chain_source(shapes);
}

// What the general kernel makes of memory; where it stores what a compiled chain does not, as that made it.
std::array<std::byte, kSlot * kSlots> after_general(const Launch& chain,
                                                    const std::array<std::byte, kSlot * kSlots>& compiled,
                                                    Memory& memory) {
  memory.fill();
  kernel(KernelId::chain).on_host(chain.arguments.data(), chain.count);
  const ChainArguments arguments = arguments_of(chain);
  for (int l = 0; l < arguments.links; ++l) {
    const ChainLink& link = arguments.link[l];
    if (!link.stores || link.is_wanted) continue;
    const auto at = static_cast<const std::byte*>(link.result) - memory.bytes.data();
    std::copy_n(compiled.begin() + at, kSlot, memory.bytes.begin() + at);
  }
  return memory.bytes;
}

TEST(ChainSource, IsWhatTheirKernelDoes) {
  Memory memory;
  const std::vector<Launch> chains = drawn(memory.bytes.data(), 60);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("meshwright_chains_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  {
    std::ofstream file(folder / "chains.cpp");
    file << source_of(chains) << "extern \"C\" void (*const kernels[])(const void*, int64_t) = {";
    for (std::size_t i = 0; i < chains.size(); ++i) file << "meshwright::cuda::chain_" << i << "_on_host, ";
    file << "};\nextern \"C\" const int chain_bytes = sizeof(meshwright::cuda::ChainArguments);\n";
  }
  const std::string library = (folder / "chains.so").string(),
                    command = std::string(COMPILER " -std=c++20 -O1 -w -fPIC -shared -I" KERNELS " -o ") + library +
                              " " + (folder / "chains.cpp").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove_all(folder);
  ASSERT_NE(opened, nullptr) << dlerror();
  const auto* kernels = static_cast<void (*const*)(const void*, std::int64_t)>(dlsym(opened, "kernels"));
  ASSERT_EQ(*static_cast<const int*>(dlsym(opened, "chain_bytes")), sizeof(ChainArguments));
  int links = 0, strided = 0, unwanted = 0;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const auto after = [&](auto run) {
      memory.fill();
      run(chains[i].arguments.data(), chains[i].count);
      return memory.bytes;
    };
    const auto made = after(kernels[i]);
    const auto expected = after_general(chains[i], made, memory);
    const auto differs = std::mismatch(made.begin(), made.end(), expected.begin()).first - made.begin();
    EXPECT_EQ(differs, std::ssize(made)) << "in slot " << differs / static_cast<std::ptrdiff_t>(kSlot) << ":\n"
                                         << chain_shape(arguments_of(chains[i]));
    links += arguments_of(chains[i]).links;
    strided += arguments_of(chains[i]).strided;
    for (const ChainLink& link : arguments_of(chains[i]).link) unwanted += link.stores && !link.is_wanted ? 1 : 0;
  }
  EXPECT_GT(links, 120);
  EXPECT_GT(strided, 30);
  EXPECT_GT(unwanted, 3);
}

// Places, lengths and numbers are no part of it; types, functions and what is handed on are.
TEST(ChainSource, IsSharedByChainsOfOneShape) {
  Memory memory;
  const ChainArguments first = arguments_of(drawn(memory.bytes.data(), 20).back());
  ChainArguments moved = first;
  moved.elements = 4096;
  for (int l = 0; l < moved.links; ++l) {
    moved.link[l].number += 1;
    moved.link[l].result = static_cast<std::byte*>(moved.link[l].result) + 4096;
    for (const void*& operand : moved.link[l].operand) {
      if (operand != nullptr) operand = static_cast<const std::byte*>(operand) + 4096;
    }
  }
  EXPECT_EQ(chain_shape(moved), chain_shape(first));
  ChainArguments other = first;
  other.link[0].of_result = other.link[0].of_result == Element::float32 ? Element::bfloat16 : Element::float32;
  EXPECT_NE(chain_shape(other), chain_shape(first));
  other = first;
  other.link[0].function = other.link[0].function == Function::add ? Function::multiply : Function::add;
  EXPECT_NE(chain_shape(other), chain_shape(first));
}

TEST(ChainSource, IsCompiledForGpus) {
  const LoadedCompiler compiler;
  if (!compiler.is_there()) GTEST_SKIP() << "NVRTC was not found";
  Memory memory;
  const std::string source = source_of(drawn(memory.bytes.data(), 12));
  for (const int architecture : {80, 90}) {
    std::vector<char> made;
    EntryPoint entry = EntryPoint::compiler_create;
    ASSERT_EQ(compiler.compile(source, architecture, made, entry), 0) << name(entry);
    ASSERT_GT(made.size(), 4U);
    EXPECT_EQ(std::string(made.data() + 1, 3), "ELF");
  }
  std::vector<char> made;
  EntryPoint entry = EntryPoint::compiler_create;
  EXPECT_EQ(compiler.compile("not a kernel", 90, made, entry), 6);  // NVRTC_ERROR_COMPILATION
  EXPECT_EQ(entry, EntryPoint::compiler_compile);
  EXPECT_EQ(std::string(compiler.text(6)), "NVRTC_ERROR_COMPILATION");
}

// To the bit: compiled chains round after each function, as the host does.
TEST(ChainSource, IsThatOnAGpu) {
  Memory memory;
  Gpu gpu(memory.bytes.size());
  const Status opened = gpu.open();
  if (Gpu::is_absent(opened)) GTEST_SKIP() << opened.error().message;
  ASSERT_TRUE(opened) << opened.error().message;
  const std::vector<Launch> on_host = drawn(memory.bytes.data(), 60, true);
  std::vector<Launch> on_gpu = drawn(gpu.memory(), 60, true);
  EntryPoint entry = EntryPoint::compiler_compile;
  ASSERT_EQ(gpu.driver().load_chains(source_of(on_gpu), on_gpu.size(), entry), 0) << name(entry);
  for (std::size_t i = 0; i < on_gpu.size(); ++i) {
    on_gpu[i].compiled = i + 1;
    memory.fill();
    ASSERT_TRUE(gpu.run({on_gpu[i]}, memory.bytes));
    const auto made = memory.bytes;
    EXPECT_EQ(made, after_general(on_host[i], made, memory)) << chain_shape(arguments_of(on_host[i]));
  }
}

TEST(ChainSource, IsNotCompiledWithoutALibrary) { EXPECT_FALSE(LoadedCompiler({"libnone.so"}).is_there()); }

}  // namespace
}  // namespace meshwright::cuda
