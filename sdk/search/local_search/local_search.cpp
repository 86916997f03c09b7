#include "local_search.h"

#include <algorithm>
#include <compare>

namespace meshwright {

namespace {

// In the order in which they matter.
struct Merit {
  std::int64_t forbidden = 0;
  std::int64_t bytes_over = 0;
  TickSum cost = 0;
  auto operator<=>(const Merit&) const = default;
};

class Improvement {
 public:
  Improvement(const StrategySpace& space, std::vector<std::uint32_t> start, std::int64_t budget)
      : space_(space),
        budget_(budget),
        choice_(std::move(start)),
        edges_(space.nodes.size()),
        terms_(space.nodes.size()) {
    for (const SpaceEdge& edge : space.edges) {
      edges_[edge.from].push_back(&edge);
      edges_[edge.to].push_back(&edge);
    }
    for (const MemoryTerm& term : space.memory) times_.push_back(term.begin);
    std::sort(times_.begin(), times_.end());
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    bytes_.assign(times_.size(), space.fixed_bytes);
    for (const MemoryTerm& term : space.memory) {
      const auto begin = std::lower_bound(times_.begin(), times_.end(), term.begin) - times_.begin();
      const auto end = std::lower_bound(times_.begin(), times_.end(), term.end) - times_.begin();
      terms_[term.node].push_back({&term, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)});
    }
    for (std::size_t node = 0; node < choice_.size(); ++node) hold(node, +1);
    for (const std::int64_t bytes : bytes_) over_ = std::max(over_, bytes - budget_);
  }

  std::vector<std::uint32_t> run(int most_sweeps) {
    bool changed = true;
    for (int sweep = 0; sweep < most_sweeps && changed; ++sweep) {
      changed = false;
      for (std::size_t node = 0; node < choice_.size(); ++node) changed = improve(node) || changed;
    }
    return std::move(choice_);
  }

 private:
  struct Term {
    const MemoryTerm* term;
    std::size_t begin;  // of the times at which terms begin
    std::size_t end;
  };

  struct Stretch {
    std::int64_t of_others = 0;  // the most that other nodes hold in it
    std::vector<const MemoryTerm*> terms;
  };

  bool improve(std::size_t node) {
    const std::uint32_t before = choice_[node];
    std::uint32_t best_strategy = before;
    Merit best = cost_of(node);
    if (over_ == 0 && !may_cost_less(node, best)) return false;  // what its strategies hold makes none of them better
    hold(node, -1);
    find_stretches(node);
    best.bytes_over = bytes_over(node);
    for (std::uint32_t strategy = 0; strategy < space_.nodes[node].costs.size(); ++strategy) {
      choice_[node] = strategy;
      Merit candidate = cost_of(node);
      if (candidate >= best) continue;  // whatever it holds
      candidate.bytes_over = bytes_over(node);
      if (candidate < best) {
        best = candidate;
        best_strategy = strategy;
      }
    }
    choice_[node] = best_strategy;
    hold(node, +1);
    if (!terms_[node].empty()) over_ = best.bytes_over;
    return best_strategy != before;
  }

  bool may_cost_less(std::size_t node, const Merit& than) {
    const std::uint32_t before = choice_[node];
    bool may = false;
    for (std::uint32_t strategy = 0; strategy < space_.nodes[node].costs.size() && !may; ++strategy) {
      choice_[node] = strategy;
      may = cost_of(node) < than;
    }
    choice_[node] = before;
    return may;
  }

  void hold(std::size_t node, int sign) {
    for (const Term& term : terms_[node]) {
      for (std::size_t i = term.begin; i < term.end; ++i) bytes_[i] += sign * term.term->bytes[choice_[node]];
    }
  }

  // Of what changes with the node.
  [[nodiscard]] Merit cost_of(std::size_t node) const {
    Merit result;
    const auto add = [&result](Ticks cost) {
      if (cost >= kForbidden) {
        ++result.forbidden;
      } else {
        result.cost += cost;
      }
    };
    add(space_.nodes[node].costs[choice_[node]]);
    for (const SpaceEdge* edge : edges_[node]) {
      const CostTable& table = space_.tables[edge->table];
      add(table.costs[std::size_t{choice_[edge->from]} * table.columns + choice_[edge->to]]);
    }
    return result;
  }

  // Where a node's terms begin and end: between two of these moments it holds the same, and the most that others hold there is looked at once.
  void find_stretches(std::size_t node) {
    std::vector<std::size_t> moments = {0, times_.size()};
    for (const Term& term : terms_[node]) moments.insert(moments.end(), {term.begin, term.end});
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    stretches_.clear();
    for (std::size_t m = 0; m + 1 < moments.size(); ++m) {
      const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(moments[m]), last = bytes_.begin() + static_cast<std::ptrdiff_t>(moments[m + 1]);
      Stretch& stretch = stretches_.emplace_back();
      stretch.of_others = *std::max_element(first, last);
      for (const Term& term : terms_[node]) {
        if (term.begin <= moments[m] && moments[m] < term.end) stretch.terms.push_back(term.term);
      }
    }
  }

  // At the peak; the node's own memory is not in bytes_.
  [[nodiscard]] std::int64_t bytes_over(std::size_t node) const {
    if (terms_[node].empty()) return 0;  // then the peak is the same for all its strategies
    std::int64_t over = 0;
    for (const Stretch& stretch : stretches_) {
      std::int64_t bytes = stretch.of_others;
      for (const MemoryTerm* term : stretch.terms) bytes += term->bytes[choice_[node]];
      over = std::max(over, bytes - budget_);
    }
    return over;
  }

  const StrategySpace& space_;
  const std::int64_t budget_;
  std::vector<std::uint32_t> choice_;
  std::vector<std::vector<const SpaceEdge*>> edges_;
  std::vector<std::vector<Term>> terms_;
  std::vector<std::int32_t> times_;
  std::vector<std::int64_t> bytes_;  // held at each of the times
  std::int64_t over_ = 0;            // by how much the most of them is more than the budget
  std::vector<Stretch> stretches_;   // of the node that is looked at
};

}  // namespace

std::vector<std::uint32_t> local_search(const StrategySpace& space, std::vector<std::uint32_t> start,
                                        std::int64_t budget, int most_sweeps) {
  return Improvement(space, std::move(start), budget).run(most_sweeps);
}

}  // namespace meshwright
