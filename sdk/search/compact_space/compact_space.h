// A StrategySpace laid out for searches that look at every entry many times: flat arrays, tables in both orientations,
// memory as rooms at points in time. Costs are whole numbers in doubles, infinity where a choice is forbidden; all
// allowed costs together are below 2^50, so that sums and differences of them are exact.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// What no allowed choice of the valid `space` costs more than: the largest allowed costs of all nodes and edges together.
TickSum most_cost(const StrategySpace& space);

class CompactSpace {
 public:
  // `space` is valid; parallel edges add. Where its costs add up to more they are divided by 2^shift() and rounded
  // down. `budget` may be kNoBudget.
  CompactSpace(const StrategySpace& space, std::int64_t budget);
  CompactSpace(const CompactSpace&) = delete;
  CompactSpace& operator=(const CompactSpace&) = delete;

  struct Link {                // an edge, seen from one of its ends
    std::uint32_t other = 0;   // the node at the other end
    std::uint32_t edge = 0;
    bool is_first = false;     // whether the node is the edge's first end
    const double* by_other = nullptr;  // by_other[strategy of other * domain + own strategy]
    const double* by_own = nullptr;    // by_own[own strategy * domain of other + strategy of other]
  };
  struct Edge {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };
  struct Term {  // over points [begin, end)
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    const std::int64_t* bytes = nullptr;  // by strategy; not negative
  };

  [[nodiscard]] std::size_t size() const { return domains_.size(); }
  [[nodiscard]] std::size_t strategies() const { return unary_.size(); }  // of all nodes
  [[nodiscard]] std::uint32_t domain(std::uint32_t node) const { return domains_[node]; }
  [[nodiscard]] std::size_t offset(std::uint32_t node) const { return offsets_[node]; }  // into unary()
  [[nodiscard]] std::span<const double> unary() const { return unary_; }
  [[nodiscard]] std::span<const Edge> edges() const { return edges_; }
  [[nodiscard]] std::span<const Link> links(std::uint32_t node) const {
    return std::span(links_).subspan(first_link_[node], first_link_[node + 1] - first_link_[node]);
  }
  [[nodiscard]] std::span<const Term> terms(std::uint32_t node) const {
    return std::span(terms_).subspan(first_term_[node], first_term_[node + 1] - first_term_[node]);
  }
  // The bytes that the nodes' terms may hold at each point; negative where nothing fits.
  [[nodiscard]] std::span<const std::int64_t> rooms() const { return rooms_; }
  // When the points are, in the space's time; ascending.
  [[nodiscard]] std::span<const std::int32_t> times() const { return times_; }
  [[nodiscard]] int shift() const { return shift_; }
  // Entries of all tables, once for each edge.
  [[nodiscard]] std::int64_t entries() const { return entries_; }

 private:
  void add_tables(const StrategySpace& space);
  void add_memory(const StrategySpace& space, std::int64_t budget);

  int shift_ = 0;
  std::int64_t entries_ = 0;
  std::vector<std::uint32_t> domains_;
  std::vector<std::size_t> offsets_;
  std::vector<double> unary_;
  std::vector<Edge> edges_;
  std::vector<std::vector<double>> tables_;  // distinct ones, each in both orientations
  std::vector<Link> links_;
  std::vector<std::size_t> first_link_;
  std::vector<Term> terms_;
  std::vector<std::size_t> first_term_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> rooms_;
  std::vector<std::int32_t> times_;
};

}  // namespace meshwright
