#include "chains.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "kernels/movement.h"

namespace meshwright::cuda {

namespace {

// Where a link reads or writes.
struct Place {
  const std::byte* begin = nullptr;
  std::int64_t element_bytes = 0;

  [[nodiscard]] Range range(std::int64_t elements) const {
    return {begin, static_cast<std::size_t>(elements * element_bytes)};
  }
};

Place result_of(const ChainLink& link) {
  return {static_cast<const std::byte*>(link.result), bytes_of(link.of_result)};
}

bool is_handed(const ChainLink& link, int operand) { return (link.handed >> static_cast<unsigned>(operand) & 1U) != 0; }

// What a link reads from memory.
std::vector<Place> operands_of(const ChainLink& link) {
  std::vector<Place> places;
  for (int o = 0; o < link.operands; ++o) {
    if (!is_handed(link, o))
      places.push_back({static_cast<const std::byte*>(link.operand[o]), bytes_of(link.of_operand[o])});
  }
  return places;
}

Launch launch_of(const ChainArguments& arguments) {
  Launch launch = launch_of(KernelId::chain, arguments, (arguments.elements + kTogether - 1) / kTogether, {}, {});
  for (int l = 0; l < arguments.links; ++l) {
    const ChainLink& link = arguments.link[l];
    for (const Place& place : operands_of(link)) launch.reads.push_back(place.range(arguments.elements));
    if (link.stores) launch.writes.push_back(result_of(link).range(arguments.elements));
  }
  return launch;
}

// Each thread has the same bytes of both, or they have none in common.
bool agree(const Place& a, const Place& b, std::int64_t elements) {
  if (a.begin == b.begin) return a.element_bytes == b.element_bytes;
  return a.begin + elements * a.element_bytes <= b.begin || b.begin + elements * b.element_bytes <= a.begin;
}

bool has_type(Element element) { return is_single(element) || element == Element::boolean; }

// Row by row, at a multiple of 16 bytes.
bool is_in_rows(const View& view, const Sizes& sizes) {
  return sizes.rank <= 1 && (sizes.rank == 0 || view.strides[0] == 1) && has_type(view.element) &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

}  // namespace

ChainArguments arguments_of(const Launch& launch) {
  ChainArguments arguments;
  std::memcpy(&arguments, launch.arguments.data(), sizeof arguments);
  return arguments;
}

std::optional<Launch> chain_of(const PointwiseArguments& arguments, std::int64_t elements) {
  if (!is_chained(arguments.function) || !is_in_rows(arguments.result, arguments.sizes)) return std::nullopt;
  ChainArguments chain;
  chain.links = 1;
  chain.elements = elements;
  ChainLink& link = chain.link[0];
  link.function = arguments.function;
  link.operands = arguments.operands;
  link.number = static_cast<float>(arguments.number);
  link.second = static_cast<float>(arguments.second);
  link.other = static_cast<float>(arguments.other);
  link.of_result = arguments.result.element;
  link.result = arguments.result.data;
  for (int o = 0; o < arguments.operands; ++o) {
    if (!is_in_rows(arguments.operand[o], arguments.sizes)) return std::nullopt;
    link.of_operand[o] = arguments.operand[o].element;
    link.operand[o] = arguments.operand[o].data;
    if (!agree(operands_of(link).back(), result_of(link), elements)) return std::nullopt;
  }
  return launch_of(chain);
}

std::optional<Launch> joined(const Launch& before, const Launch& next) {
  ChainArguments chain = arguments_of(before);
  const ChainArguments behind = arguments_of(next);
  if (chain.elements != behind.elements || chain.links + behind.links > ChainArguments::kMaxLinks) return std::nullopt;
  const std::int64_t elements = chain.elements;
  for (int n = 0; n < behind.links; ++n) {
    ChainLink link = behind.link[n];
    const ChainLink& last = chain.link[chain.links - 1];
    for (int o = 0; o < link.operands; ++o) {
      if (link.operand[o] == last.result && link.of_operand[o] == last.of_result)
        link.handed |= 1U << static_cast<unsigned>(o);
    }
    const std::vector<Place> reads = operands_of(link);
    for (int l = 0; l < chain.links; ++l) {
      const Place made = result_of(chain.link[l]), makes = result_of(link);
      const auto fits = [&](const Place& place) { return agree(place, made, elements); };
      const auto is_free = [&](const Place& place) { return agree(place, makes, elements); };
      if (!std::ranges::all_of(reads, fits) || !fits(makes) ||
          !std::ranges::all_of(operands_of(chain.link[l]), is_free))
        return std::nullopt;
    }
    chain.link[chain.links++] = link;
  }
  return launch_of(chain);
}

void keep_in_registers(Launch& launch, const std::byte* result) {
  ChainArguments chain = arguments_of(launch);
  int made = chain.links - 1;
  while (made >= 0 && chain.link[made].result != result) --made;
  if (made < 0) return;
  for (int l = made + 1; l < chain.links; ++l) {
    const std::vector<Place> read = operands_of(chain.link[l]);
    if (std::ranges::any_of(read, [&](const Place& place) { return place.begin == result; })) return;
  }
  if (made + 1 == chain.links || chain.link[made + 1].handed == 0) return;
  chain.link[made].stores = false;
  launch = launch_of(chain);
}

}  // namespace meshwright::cuda
