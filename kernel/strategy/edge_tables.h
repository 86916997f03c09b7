// What it costs to join two strategies: the conversion of the value forward and of its gradient backward, for every
// pair of strategies along an edge. Private to the kernel.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

// The prices between all layouts that are met on tensors of one shape, dtype and way of packing.
struct ConversionPrices {
  std::map<Layout, std::uint32_t> numbers;
  std::vector<Layout> layouts;
  std::vector<PathPrice> paths;  // [from * layouts.size() + to]

  std::uint32_t add(const Layout& layout) {
    const auto [found, inserted] = numbers.try_emplace(layout, static_cast<std::uint32_t>(layouts.size()));
    if (inserted) layouts.push_back(layout);
    return found->second;
  }
};

// What the tables were made from, by edge of the problem: which of the prices its value has, and its gradient.
struct EdgePrices {
  struct OfEdge {
    std::uint32_t value = 0, gradient = 0;
    bool has_gradient = false;  // comes back along the edge
  };
  std::vector<ConversionPrices> classes;
  std::vector<OfEdge> edges;

  [[nodiscard]] PathPrice between(std::uint32_t number, const Layout& from, const Layout& to) const {
    if (from == to) return {0, 0};
    const ConversionPrices& prices = classes[number];
    return prices.paths[prices.numbers.at(from) * prices.layouts.size() + prices.numbers.at(to)];
  }
};

// What is converted along an edge is converted again for the backward: by the op that runs again, whose backward takes what is made again, or which takes it converted
// again; or to where one of those settles.
[[nodiscard]] bool is_again(const ModelAnalysis& model, const Problem& problem, const ProblemEdge& edge);

class EdgeTables {
 public:
  explicit EdgeTables(const ProblemInput& input);

  // Fills problem.space.edges and .tables from problem.edges, and problem.edge_prices.
  Status fill(Problem& problem);
  // Of a parameter's value, or of its gradient, between the layouts in which it is stored and reduced and that of its state;
  // after `fill`.
  [[nodiscard]] Ticks price(ValueId parameter, bool gradient, const Layout& from, const Layout& to);
  // What the gathers behind the updates wait for besides (gather_latency).
  [[nodiscard]] Ticks update_latency(const ParameterStrategy& parameter) const;

 private:
  struct TableKey {
    std::uint32_t from_set, from_port, to_set, to_port, prices, gradient_prices;
    std::int64_t hidden_millionths;
    bool of_parameter, has_gradient, again;
    auto operator<=>(const TableKey&) const = default;
  };

  std::uint32_t prices_of(ValueId value, std::int64_t element_bytes, bool of_parameter);
  Status price_all();
  // Whether a gradient comes back along the edge.
  [[nodiscard]] bool has_gradient(const Problem& problem, const ProblemEdge& edge) const;
  CostTable make_table(const Problem& problem, const ProblemEdge& edge, const ConversionPrices& prices, const ConversionPrices& gradient_prices) const;
  [[nodiscard]] Ticks exposed(Ticks ticks, double seconds) const;
  [[nodiscard]] Ticks step_ticks(const ProblemEdge& edge, const ParameterStrategy& parameter, const Strategy& user, Ticks gather,
                                 Ticks reduce) const;
  [[nodiscard]] Ticks load_latency(const ParameterStrategy& parameter) const;
  [[nodiscard]] Ticks gather_latency(const Layout& from, const Layout& to, double together) const;

  const ProblemInput& input_;
  double parameters_ = 1, parameters_in_block_ = 1;  // that are trained; the mean
  std::map<std::pair<std::string, bool>, std::uint32_t> classes_;
  std::shared_ptr<EdgePrices> all_ = std::make_shared<EdgePrices>();
  std::vector<ConversionPrices>& prices_ = all_->classes;
  struct Example {
    ValueId value;
    std::int64_t element_bytes;
    bool packed;
  };
  std::vector<Example> examples_;  // of each class
};

// Tensors of one class convert alike: the same atoms and element size.
std::string conversion_class(const AtomShape& shape, std::int64_t element_bytes);

// Whether a parameter may serve an op that needs it in `needed`: as it is computed with, or, of what is not gathered, the
// addend of a partial sum. What an op needs in shards is a parameter in shards.
bool serves(const ParameterStrategy& parameter, const Layout& needed);

}  // namespace meshwright
