#include "border.h"

#include <algorithm>

namespace meshwright {

Result<Border> border_of(const Node& node) {
  if (node.op.starts_with("aten.reflection_pad")) return Border::reflect;
  if (node.op.starts_with("aten.replication_pad")) return Border::replicate;
  const std::string mode = node.text("mode", "constant");
  if (mode == "constant") return Border::constant;
  if (mode == "reflect") return Border::reflect;
  if (mode == "replicate") return Border::replicate;
  if (mode == "circular") return Border::circular;
  return bad_input("padding mode '" + mode + "' is not supported; constant, reflect, replicate and circular are");
}

std::vector<std::int64_t> widths_of(const Node& node) {
  return node.integers(node.attributes.contains("padding") ? "padding" : "pad");
}

std::pair<std::int64_t, std::int64_t> widths_at(const std::vector<std::int64_t>& widths, std::size_t rank, std::size_t d) {
  const std::size_t pair = 2 * (rank - 1 - d);
  if (pair + 1 >= widths.size()) return {0, 0};
  return {widths[pair], widths[pair + 1]};
}

Result<std::vector<std::int64_t>> sources_of(Border border, std::int64_t size, std::int64_t padded, std::int64_t before) {
  std::vector<std::int64_t> sources;
  // What goes round is what remains after the cuts.
  const std::int64_t first = std::max<std::int64_t>(-before, 0), last = std::min(size, padded - before), kept = last - first;
  for (std::int64_t position = 0; position < padded; ++position) {
    std::int64_t source = position - before;
    if (border == Border::circular && source < first) source += kept;
    else if (border == Border::circular && source >= last) source -= kept;
    if (source < 0 || source >= size) {
      if (border == Border::constant) source = -1;
      if (border == Border::replicate) source = std::clamp<std::int64_t>(source, 0, size - 1);
      if (border == Border::reflect) source = source < 0 ? -source : 2 * (size - 1) - source;
      if (source < -1 || source >= size || (source < 0 && border != Border::constant)) {
        return bad_input("the padding of a dimension of " + std::to_string(size) + " is wider than what it repeats");
      }
    }
    sources.push_back(source);
  }
  return sources;
}

}  // namespace meshwright
