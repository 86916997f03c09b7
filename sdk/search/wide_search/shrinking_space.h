// One space under one budget, made smaller as more becomes known: points in time that can't bind go, reduce() does what
// it can, and strategies that no choice of at most a known cost has are dropped. Each stage keeps what lifts a choice
// back to the first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compact_space.h"
#include "message_passing.h"
#include "meshwright/reduce.h"

namespace meshwright {

class ShrinkingSpace {
 public:
  // `original` is valid and outlives this; `reduce_work` is ReduceOptions::dominance_work_limit.
  ShrinkingSpace(const StrategySpace& original, std::int64_t budget, std::int64_t reduce_work);

  [[nodiscard]] bool is_infeasible() const { return infeasible_; }  // nothing is allowed, or left
  // What is left of the space: costs lack constant(), times are new. It may have no nodes.
  [[nodiscard]] const StrategySpace& space() const { return space_; }
  [[nodiscard]] const CompactSpace& compact() const { return *compact_; }
  [[nodiscard]] TickSum constant() const { return constant_; }
  // The original's time of one of compact()'s points, before the first shrink().
  [[nodiscard]] std::int32_t time_of(std::size_t point) const {
    return times_[static_cast<std::size_t>(compact_->times()[point])];
  }

  [[nodiscard]] std::vector<std::uint32_t> lift(const std::vector<std::uint32_t>& choice) const;

  // A choice of the space before the last shrink(), as far as it is left.
  [[nodiscard]] std::vector<std::uint32_t> carry(const std::vector<std::uint32_t>& choice) const;

  // For each node of compact(), its number and those of its strategies before the last shrink(); nobody's for one that was not.
  struct Before {
    std::vector<std::uint32_t> nodes;
    std::vector<std::vector<std::uint32_t>> strategies;
  };
  [[nodiscard]] Before before() const;

  // Whether a shrink() would make the space much smaller.
  static bool is_worth_it(const std::vector<bool>& dropped);
  // Drops strategies of compact(), by their place among all, and reduces again. Prices of compact()'s points become
  // those of the new one's.
  void shrink(const std::vector<bool>& dropped, PointPrices& prices);

 private:
  struct Stage {
    std::vector<std::vector<std::uint32_t>> kept;  // strategies, by node, before the reduction
    Reduction reduction;                           // its space is moved out
  };

  void add_stage(StrategySpace space, std::vector<std::vector<std::uint32_t>> kept);

  std::int64_t budget_;
  std::int64_t reduce_work_;
  bool infeasible_ = false;
  StrategySpace space_;
  std::unique_ptr<CompactSpace> compact_;
  TickSum constant_ = 0;
  std::vector<Stage> stages_;
  std::vector<std::int32_t> times_;  // of the stage before, by time of space_
};

}  // namespace meshwright
