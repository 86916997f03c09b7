// TAP's Algorithm 3 (§4.5): from patterns to strategies of every variable, if they can be joined.
//
// GraphNodes are visited as their operands become ready, in topological order; then the auxiliary variables between them, each time
// the one for which another strategy than its best would cost most beside what is chosen already; then the weights, which follow the
// ops that compute with them. Each takes the strategy, of those that its pattern leaves, that costs least together with what is
// chosen and with the cheapest of what its other neighbours may still choose; no such strategy: the candidate is not valid. In
// topological order alone an auxiliary variable would not know what it leads to: a bias that is added to the scores of attention
// costs nothing if every device makes all of it, until its gradient comes back in parts. Last, single variables are changed while
// that makes the plan cheaper.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph_nodes.h"
#include "meshwright/strategy.h"
#include "meter.h"

namespace meshwright::tap {

class Router {
 public:
  using Choices = std::vector<std::uint32_t>;

  // Steers by seconds and, at `ticks_per_byte`, by what strategies hold. The references must outlive it.
  Router(const ProblemInput& input, const Problem& problem, const TrimmedGraph& trimmed, double ticks_per_byte, Meter& meter);

  // Chooses for the variables of `region` (ascending) from `candidates` (by variable); others are as `choice` says. False: not
  // valid, or work is at its end.
  bool route(std::span<const std::uint32_t> region, const std::vector<const Choices*>& candidates, std::vector<std::uint32_t>& choice);

  // TAP's cost (§4.6): what is communicated by the variables of `region` and over the edges that touch them, forward and backward.
  // Gradients' reductions count as far as they can't hide behind computing. kForbidden or more: not allowed.
  [[nodiscard]] TickSum communication(std::span<const std::uint32_t> region, const std::vector<std::uint32_t>& choice) const;
  // The same with computing.
  [[nodiscard]] TickSum cost(std::span<const std::uint32_t> region, const std::vector<std::uint32_t>& choice) const;

 private:
  struct End {
    std::uint32_t other = 0;  // the variable at the other end
    std::uint32_t table = 0;
    bool is_from = false;     // whether this end is the edge's `from`
  };

  [[nodiscard]] Ticks joined(const End& end, std::uint32_t mine, std::uint32_t others) const {
    const CostTable& table = problem_.space.tables[end.table];
    return end.is_from ? table.costs[std::size_t{mine} * table.columns + others] : table.costs[std::size_t{others} * table.columns + mine];
  }
  [[nodiscard]] Ticks regret(std::uint32_t v, const Choices& candidates, const std::vector<std::uint32_t>& choice);
  bool visit_in_order(std::span<const std::uint32_t> region, const std::vector<const Choices*>& candidates, std::vector<std::uint32_t>& choice);
  void improve(std::span<const std::uint32_t> region, const std::vector<const Choices*>& candidates, std::vector<std::uint32_t>& choice);
  template <class CostOfEdge>
  bool take_cheapest(std::uint32_t v, const Choices& candidates, std::vector<std::uint32_t>& choice, CostOfEdge cost_of_edge);
  [[nodiscard]] TickSum sum(std::span<const std::uint32_t> region, const std::vector<std::uint32_t>& choice,
                            const std::vector<std::vector<Ticks>>& own) const;

  const Problem& problem_;
  Meter& meter_;
  std::vector<std::vector<End>> ends_;              // by variable
  std::vector<std::vector<Ticks>> steered_by_;      // by variable and strategy
  std::vector<std::vector<Ticks>> communicated_;    // the same, of the variable itself, without computing
  const TrimmedGraph& trimmed_;
  std::vector<bool> is_graph_node_;                 // by variable
  std::vector<bool> is_open_;                       // by variable: in the region that is being routed, and not yet visited
  std::vector<Ticks> regret_;                       // of the open ones
};

}  // namespace meshwright::tap
