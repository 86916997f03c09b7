#include "guarded_kernel.h"

#include <algorithm>

namespace meshwright::cuda {

namespace {

void copy_ranges(const std::vector<Range>& ranges, const std::vector<std::byte>& memory,
                 const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  for (const Range& range : ranges) {
    const auto at = range.begin - memory.data();
    std::copy_n(from.begin() + at, range.bytes, to.begin() + at);
  }
}

}  // namespace

std::string run_guarded(const Launch& launch, std::vector<std::byte>& memory) {
  std::vector<std::byte> before = memory, shown(memory.size(), std::byte{0xff});
  copy_ranges(launch.reads, memory, before, shown);
  copy_ranges(launch.writes, memory, before, shown);
  std::ranges::copy(shown, memory.begin());
  kernel(launch.kernel).on_host(launch.arguments.data(), launch.count);
  copy_ranges(launch.writes, memory, memory, before);
  copy_ranges(launch.writes, memory, memory, shown);
  const bool is_kept = shown == memory;
  std::ranges::copy(before, memory.begin());
  return is_kept ? ""
                 : std::string("the kernel '") + kernel(launch.kernel).name + "' writes where its launch does not say";
}

}  // namespace meshwright::cuda
