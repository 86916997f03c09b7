#include "chains.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "kernels/movement.h"
#include "seen.h"

namespace meshwright::cuda {

namespace {

// Where a link reads or writes.
struct Place {
  Range range;
  std::int64_t element_bytes = 0;
  bool lies_otherwise = false;  // than the chain's results
};

Place place_of(const ChainArguments& chain, const void* data, Element element, int lies) {
  Place place{{static_cast<const std::byte*>(data), 0}, bytes_of(element), lies > 0};
  std::int64_t extent = chain.elements;
  if (lies > 0) {
    extent = 1;
    for (int d = 0; d < chain.rank; ++d) extent += (chain.sizes[d] - 1) * chain.strides[lies - 1][d];
  }
  place.range.bytes = static_cast<std::size_t>(extent * place.element_bytes);
  return place;
}

Place result_of(const ChainArguments& chain, const ChainLink& link) {
  return place_of(chain, link.result, link.of_result, 0);
}

bool is_handed(const ChainLink& link, int operand) { return (link.handed >> static_cast<unsigned>(operand) & 1U) != 0; }

// What a link reads from memory.
std::vector<Place> operands_of(const ChainArguments& chain, const ChainLink& link) {
  std::vector<Place> places;
  for (int o = 0; o < link.operands; ++o) {
    if (!is_handed(link, o)) places.push_back(place_of(chain, link.operand[o], link.of_operand[o], link.lies[o]));
  }
  return places;
}

// The last of the first links that makes what stands there; -1: none does.
int maker_of(const ChainArguments& chain, int links, const std::byte* result) {
  int made = links - 1;
  while (made >= 0 && chain.link[made].result != result) --made;
  return made;
}

Launch launch_of(const ChainArguments& arguments) {
  Launch launch = launch_of(KernelId::chain, arguments, (arguments.elements + kTogether - 1) / kTogether, {}, {});
  for (int l = 0; l < arguments.links; ++l) {
    const ChainLink& link = arguments.link[l];
    for (const Place& place : operands_of(arguments, link)) launch.reads.push_back(place.range);
    if (link.stores) launch.writes.push_back(result_of(arguments, link).range);
  }
  return launch;
}

// Each thread has the same bytes of both, or they have none in common.
bool agree(const Place& a, const Place& b) {
  if (a.range.begin == b.range.begin && !a.lies_otherwise && !b.lies_otherwise)
    return a.element_bytes == b.element_bytes;
  return !overlap({a.range}, {b.range});
}

bool has_type(Element element) { return is_single(element) || element == Element::boolean; }

bool is_aligned(const View& view) { return alignment_of(view.data) == 16; }

bool is_in_rows(const View& view, const Sizes& sizes) {
  std::int64_t expected = 1;
  for (int d = sizes.rank; d-- > 0;) {
    if (view.strides[d] != expected) return false;
    expected *= sizes.of[d];
  }
  return is_aligned(view);
}

// How an operand lies (ChainLink::lies), whose strides the chain has from here on. Nothing: a thread would have neither
// pieces of its rows nor one number of each.
std::optional<std::int8_t> lies(ChainArguments& chain, const View& view, const Sizes& sizes) {
  if (is_in_rows(view, sizes)) return 0;
  const int rank = sizes.rank;
  if (rank == 0 || rank > ChainArguments::kMaxRank || chain.strided == ChainArguments::kMaxStrides) return {};
  if (rank > 1 && sizes.of[rank - 1] % kTogether != 0) return {};
  const bool repeats = view.strides[rank - 1] == 0;
  if (!repeats && (view.strides[rank - 1] != 1 || !is_aligned(view))) return {};
  for (int d = 0; !repeats && d + 1 < rank; ++d) {
    if (view.strides[d] % kTogether != 0) return {};
  }
  chain.rank = rank;
  std::copy_n(sizes.of, rank, chain.sizes);
  std::copy_n(view.strides, rank, chain.strides[chain.strided]);
  return static_cast<std::int8_t>(++chain.strided);
}

// Takes over the strides of operands of another chain, and says how such a one lies here. Nothing: both go over other
// dimensions, or have too many.
std::optional<std::int8_t> lies(ChainArguments& chain, const ChainArguments& other, std::int8_t there) {
  if (there == 0) return 0;
  if (chain.strided == 0) {
    chain.rank = other.rank;
    std::copy_n(other.sizes, ChainArguments::kMaxRank, chain.sizes);
  }
  if (chain.rank != other.rank || !std::ranges::equal(chain.sizes, other.sizes)) return {};
  for (std::int8_t here = 1; here <= chain.strided; ++here) {
    if (std::ranges::equal(chain.strides[here - 1], other.strides[there - 1])) return here;
  }
  if (chain.strided == ChainArguments::kMaxStrides) return {};
  std::copy_n(other.strides[there - 1], ChainArguments::kMaxRank, chain.strides[chain.strided]);
  return static_cast<std::int8_t>(++chain.strided);
}

}  // namespace

ChainArguments arguments_of(const Launch& launch) {
  ChainArguments arguments;
  std::memcpy(&arguments, launch.arguments.data(), sizeof arguments);
  return arguments;
}

std::optional<Launch> chain_of(const PointwiseArguments& arguments, std::int64_t elements) {
  if (!is_chained(arguments.function) || !has_type(arguments.result.element) ||
      !is_in_rows(arguments.result, arguments.sizes))
    return std::nullopt;
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
    const View& operand = arguments.operand[o];
    const std::optional<std::int8_t> found =
        has_type(operand.element) ? lies(chain, operand, arguments.sizes) : std::nullopt;
    if (!found) return std::nullopt;
    link.lies[o] = *found;
    link.of_operand[o] = operand.element;
    link.operand[o] = operand.data;
    if (!agree(operands_of(chain, link).back(), result_of(chain, link))) return std::nullopt;
  }
  return launch_of(chain);
}

std::optional<Launch> joined(const Launch& before, const Launch& next) {
  ChainArguments chain = arguments_of(before);
  const ChainArguments behind = arguments_of(next);
  if (chain.elements != behind.elements || chain.links + behind.links > ChainArguments::kMaxLinks) return std::nullopt;
  for (int n = 0; n < behind.links; ++n) {
    ChainLink link = behind.link[n];
    const ChainLink& last = chain.link[chain.links - 1];
    for (int o = 0; o < link.operands; ++o) {
      const std::optional<std::int8_t> here = lies(chain, behind, link.lies[o]);
      if (!here) return std::nullopt;
      link.lies[o] = *here;
      if (*here == 0 && link.operand[o] == last.result && link.of_operand[o] == last.of_result)
        link.handed |= 1U << static_cast<unsigned>(o);
    }
    const std::vector<Place> reads = operands_of(chain, link);
    for (int l = 0; l < chain.links; ++l) {
      const Place made = result_of(chain, chain.link[l]), makes = result_of(chain, link);
      const auto fits = [&](const Place& place) { return agree(place, made); };
      const auto is_free = [&](const Place& place) { return agree(place, makes); };
      if (!std::ranges::all_of(reads, fits) || !fits(makes) ||
          !std::ranges::all_of(operands_of(chain, chain.link[l]), is_free))
        return std::nullopt;
    }
    chain.link[chain.links++] = link;
  }
  return launch_of(chain);
}

std::size_t reads_within(const Launch& launch, const std::byte* result) {
  const ChainArguments chain = arguments_of(launch);
  const int made = maker_of(chain, chain.links, result);
  std::size_t reads = 0;
  for (int l = made + 1; l < chain.links; ++l) {
    for (int o = 0; o < chain.link[l].operands; ++o)
      reads += chain.link[l].lies[o] == 0 && chain.link[l].operand[o] == result ? 1 : 0;
  }
  return reads;
}

void keep_in_registers(Launch& launch, const std::byte* result) {
  ChainArguments chain = arguments_of(launch);
  const int made = maker_of(chain, chain.links, result);
  if (made < 0 || made + 1 == chain.links) return;
  ChainLink& link = chain.link[made];
  link.is_wanted = link.stores = false;
  for (int l = made + 1; l < chain.links; ++l) {
    const std::vector<Place> read = operands_of(chain, chain.link[l]);
    if (std::ranges::any_of(read, [&](const Place& place) { return place.range.begin == result; })) link.stores = true;
  }
  launch = launch_of(chain);
}

Touched touched_by_compiled(const Launch& launch) {
  const ChainArguments chain = arguments_of(launch);
  Touched touched;
  for (int l = 0; l < chain.links; ++l) {
    for (const Place& place : operands_of(chain, chain.link[l])) {
      if (place.lies_otherwise || maker_of(chain, l, place.range.begin) < 0) touched.reads.push_back(place.range);
    }
    if (chain.link[l].is_wanted) touched.writes.push_back(result_of(chain, chain.link[l]).range);
  }
  return touched;
}

}  // namespace meshwright::cuda
