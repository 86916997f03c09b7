#include "guarded_kernel.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace meshwright::cuda {

namespace {

// A block as it was, and as it is shown to the kernel.
struct Guarded {
  std::span<std::byte> memory;
  std::vector<std::byte> before, shown;

  // Those of the ranges that lie in it.
  void copy(const std::vector<Range>& ranges, std::span<const std::byte> from, std::span<std::byte> to) const {
    for (const Range& range : ranges) {
      if (range.begin < memory.data() || range.begin >= memory.data() + memory.size()) continue;
      const auto at = static_cast<std::size_t>(range.begin - memory.data());
      std::ranges::copy(from.subspan(at, range.bytes), to.subspan(at).begin());
    }
  }
};

}  // namespace

std::string run_guarded(const Launch& launch, std::span<const std::span<std::byte>> blocks) {
  std::vector<Guarded> guarded;
  for (const std::span<std::byte> memory : blocks) {
    Guarded& block = guarded.emplace_back(
        Guarded{memory, {memory.begin(), memory.end()}, std::vector<std::byte>(memory.size(), std::byte{0xff})});
    block.copy(launch.reads, block.before, block.shown);
    block.copy(launch.writes, block.before, block.shown);
    std::ranges::copy(block.shown, memory.begin());
  }
  kernel(launch.kernel).on_host(launch.arguments.data(), launch.count);
  bool is_kept = true;
  for (Guarded& block : guarded) {
    block.copy(launch.writes, block.memory, block.before);
    block.copy(launch.writes, block.memory, block.shown);
    is_kept = is_kept && std::memcmp(block.shown.data(), block.memory.data(), block.memory.size()) == 0;
    std::ranges::copy(block.before, block.memory.begin());
  }
  return is_kept ? ""
                 : std::string("the kernel '") + kernel(launch.kernel).name + "' writes where its launch does not say";
}

}  // namespace meshwright::cuda
