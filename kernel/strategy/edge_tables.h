// What it costs to join two strategies: the conversion of the value forward and of its gradient backward, for every
// pair of strategies along an edge. Private to the kernel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

// The prices between all layouts that are met on tensors of one shape, dtype and way of packing.
struct ConversionPrices {
  std::map<Layout, std::uint32_t> numbers;
  std::vector<Layout> layouts;
  std::vector<Ticks> ticks;  // [from * layouts.size() + to]

  std::uint32_t add(const Layout& layout) {
    const auto [found, inserted] = numbers.try_emplace(layout, static_cast<std::uint32_t>(layouts.size()));
    if (inserted) layouts.push_back(layout);
    return found->second;
  }
};

class EdgeTables {
 public:
  explicit EdgeTables(const ProblemInput& input) : input_(input) {}

  // Fills problem.space.edges and .tables from problem.edges.
  Status fill(Problem& problem);

 private:
  struct TableKey {
    std::uint32_t from_set, from_port, to_set, to_port, prices;
    std::int64_t hidden_millionths;
    bool of_parameter;
    auto operator<=>(const TableKey&) const = default;
  };

  std::uint32_t prices_of(ValueId value, bool of_parameter);
  Status price_all();
  CostTable make_table(const ProblemEdge& edge, const StrategySet& from, const StrategySet& to,
                       const ConversionPrices& prices) const;

  const ProblemInput& input_;
  std::map<std::pair<std::string, bool>, std::uint32_t> classes_;
  std::vector<ConversionPrices> prices_;
  std::vector<std::pair<ValueId, bool>> examples_;  // a value of each class, and whether it is packed
};

// Tensors of one class convert alike: the same atoms and element size.
std::string conversion_class(const AtomShape& shape, DType dtype);

// Whether a parameter that is computed with in `compute` may serve an op that needs it in `needed`: only what is
// replicated may still be sliced. Gathering is the parameter's own choice, since its memory counts the copy.
bool serves(const Layout& compute, const Layout& needed);

}  // namespace meshwright
