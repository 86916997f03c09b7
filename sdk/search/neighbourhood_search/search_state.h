// A choice and what it takes to change it: for every strategy of every node what it would cost now, and the bytes over
// the room at every point. A forbidden pair counts as a large cost here, so that a search can pass through it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compact_space.h"
#include "range_peaks.h"

namespace meshwright {

class SearchState {
 public:
  SearchState(const CompactSpace& space, std::vector<std::uint32_t> choice);

  [[nodiscard]] const CompactSpace& space() const { return *space_; }
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return choice_; }
  [[nodiscard]] double cost() const { return cost_; }  // forbidden ones at penalty() each
  [[nodiscard]] std::int64_t bytes_over() const { return over_.most(); }  // at most 0 within the rooms
  [[nodiscard]] bool fits() const { return bytes_over() <= 0; }
  [[nodiscard]] bool is_allowed() const { return cost_ < penalty_; }
  [[nodiscard]] double penalty() const { return penalty_; }
  [[nodiscard]] const RangePeaks& over() const { return over_; }

  // The node's own cost and its edges', by its strategy, all other nodes as they are.
  [[nodiscard]] std::span<const double> costs_of(std::uint32_t node) const {
    return std::span(costs_).subspan(space_->offset(node), space_->domain(node));
  }
  [[nodiscard]] double rise(std::uint32_t node, std::uint32_t strategy) const {
    const double* costs = costs_.data() + space_->offset(node);
    return costs[strategy] - costs[choice_[node]];
  }
  // What bytes_over() would be after the move; exact if it would be above 0 or if it is not above 0 now.
  [[nodiscard]] std::int64_t bytes_over_after(std::uint32_t node, std::uint32_t strategy);
  [[nodiscard]] bool fits_after(std::uint32_t node, std::uint32_t strategy);

  void move(std::uint32_t node, std::uint32_t strategy);

  // Moves are logged; going back undoes all that came after the mark.
  [[nodiscard]] std::size_t mark() const { return log_.size(); }
  void go_back(std::size_t mark);
  void forget_log() { log_.clear(); }
  // Counts the cost afresh: sums that held forbidden ones may have been rounded.
  void recount();

 private:
  void hold(std::uint32_t node, std::uint32_t from, std::uint32_t to);

  const CompactSpace* space_;
  std::vector<std::uint32_t> choice_;
  double penalty_ = 0;
  double cost_ = 0;
  std::vector<double> costs_;
  RangePeaks over_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> log_;  // nodes and what they had before
};

}  // namespace meshwright
