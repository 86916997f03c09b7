#include "strategy/fullest_bytes.h"

#include <algorithm>
#include <utility>

namespace meshwright {

FullestBytes::Bytes FullestBytes::of(std::uint32_t i, const NodeBackward& backward) {
  std::vector<std::int64_t> key = {problem_.variables[i].set->id};
  for (const BackwardStorage& storage : backward.fullest) {
    key.push_back(storage.bytes);
    key.insert(key.end(), storage.operands.begin(), storage.operands.end());
    key.push_back(-1);
    key.insert(key.end(), storage.results.begin(), storage.results.end());
    key.push_back(-1);
  }
  const auto [found, inserted] = known_.try_emplace(std::move(key));
  if (inserted) found->second = price(i, backward);
  return found->second;
}

FullestBytes::Bytes FullestBytes::price(std::uint32_t i, const NodeBackward& backward) const {
  Bytes bytes;
  const Node& node = input_.graph().nodes[problem_.variables[i].node];
  const auto share = [&](const Layout& layout, ValueId id) {
    const std::int64_t whole = input_.graph().type(id).elements();
    return whole == 0 ? 1.0 : static_cast<double>(local_elements(layout, input_.atoms().values[id], input_.mesh)) / static_cast<double>(whole);
  };
  for (const Strategy& strategy : problem_.variables[i].set->strategies) {
    double sum = 0;
    for (const BackwardStorage& storage : backward.fullest) {
      double least = storage.operands.empty() && storage.results.empty() ? 1.0 / static_cast<double>(input_.mesh.devices()) : 1;
      for (const std::uint32_t port : storage.operands) {
        const ValueId id = node.operands[port].value;
        least = std::min({least, share(strategy.operand(port).value, id), share(strategy.operand(port).gradient, id)});
      }
      for (const std::uint32_t port : storage.results) {
        least = std::min({least, share(strategy.result(port).value, node.results[port]), share(strategy.result(port).gradient, node.results[port])});
      }
      sum += static_cast<double>(storage.bytes) * least;
    }
    bytes.push_back(static_cast<std::int64_t>(sum));
  }
  return bytes;
}

}  // namespace meshwright
