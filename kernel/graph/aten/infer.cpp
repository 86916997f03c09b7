#include "infer.h"

#include <map>

namespace meshwright::aten {

namespace {

const std::map<std::string, Infer, std::less<>>& functions() {
  static const std::map<std::string, Infer, std::less<>> kFunctions = [] {
    std::map<std::string, Infer, std::less<>> made;
    for (const auto table : {pointwise_table, reduction_table, view_table, product_table, window_table, joining_table,
                             indexing_table, factory_table, layer_table}) {
      for (const auto& [ops, infer] : table()) {
        for (std::size_t at = 0; at < ops.size();) {
          const std::size_t end = std::min(ops.find(' ', at), ops.size());
          if (end > at) made.emplace("aten." + std::string(ops.substr(at, end - at)), infer);
          at = end + 1;
        }
      }
    }
    return made;
  }();
  return kFunctions;
}

}  // namespace

Result<std::optional<Shapes>> infer(const Call& call) {
  const auto found = functions().find(call.op());
  if (found == functions().end()) return std::optional<Shapes>();
  Result<Shapes> shapes = found->second(call);
  if (!shapes) return shapes.error();
  return std::optional<Shapes>(std::move(*shapes));
}

}  // namespace meshwright::aten
