// Re-solves a set of nodes exactly, all others as they are, by elimination: nodes are left out as they are until no
// table over a node and its neighbours is larger than a limit (conditioning on a cutset; Dechter 1999).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "priced_window.h"

namespace meshwright {

class WidthWindow final : public PricedWindow {
 public:
  explicit WidthWindow(const CompactSpace& space);

  // Of these nodes, those that elimination can take with tables of at most as many entries. With `candidates`, of each
  // of these nodes, only these strategies (ascending, the current one among them).
  void set_nodes(std::span<const std::uint32_t> nodes, std::span<const std::vector<std::uint32_t>> candidates,
                 double most_entries);
  [[nodiscard]] std::span<const std::uint32_t> nodes() const { return nodes_; }

  // As ForestWindow has it: rounds of prices, from those of all points; the solution is not applied to `state`.
  WindowOutcome improve(const SearchState& state, std::span<const double> prices, int most_rounds);

 private:
  static constexpr std::uint32_t kNobody = 0xffffffff;
  struct Part {                        // of a bucket's sum: a pair's table or a message
    std::uint32_t table = 0;           // of tables_
    std::uint32_t message = kNobody;   // or the bucket that sent it
    std::size_t own = 0;               // stride of the bucket's own node
    std::vector<std::size_t> strides;  // of the separator's nodes
  };
  struct Bucket {
    std::vector<std::uint32_t> scope;  // the separator: indices into nodes_, the largest domain last
    std::vector<Part> parts;
    std::vector<double> message;  // over the separator, row-major
    std::size_t entries = 1;      // of the message
  };
  struct Pair {
    std::uint32_t first = 0, second = 0, table = 0;
  };

  void plan();
  void load(const SearchState& state);
  double solve(std::span<const double> priced_before) override;
  void join(std::uint32_t i);
  [[nodiscard]] double plain_cost(std::span<const std::uint32_t> strategies) const override;
  void hold(std::span<const std::uint32_t> strategies, std::vector<std::int64_t>& bytes) const override;
  [[nodiscard]] std::uint32_t count(std::uint32_t i) const { return static_cast<std::uint32_t>(candidates_[i].size()); }

  std::vector<std::uint32_t> position_;  // in nodes_, by node
  std::vector<std::uint32_t> nodes_;
  std::vector<std::vector<std::uint32_t>> candidates_;
  std::vector<std::size_t> offsets_;  // into costs_, by node of nodes_
  std::vector<Bucket> buckets_;       // in the order of elimination
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> at_;
  std::vector<std::vector<double>> tables_;  // of pairs, candidates only
  std::vector<double> costs_, sums_, joint_;
};

}  // namespace meshwright
