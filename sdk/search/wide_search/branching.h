// A tree of branches (branch and bound; Land and Doig 1960): where prices cannot decide between more bytes here and more
// there, the bound lies below both. Each open leaf is a part of the space, in which a node has only some of its
// strategies, and has messages and prices of its own, its parent's at first; the leaves of the lowest bounds are split in
// two where byte_swings.h says. What bounds all leaves bounds the space.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "byte_swings.h"
#include "price_ascent.h"

namespace meshwright {

class Branching {
 public:
  // Grows from where `root` is. What costs more than `goal`, a whole number, is of no interest: it leaves the leaves, so that
  // they become small, and the bound rises no higher than to the next number.
  Branching(const CompactSpace& space, const PriceAscent& root, double goal);

  // Splits a few leaves, or passes messages in the root if it has not been. When it is late, what was begun is cut short. The
  // answer is the same with two threads.
  void grow(bool two_threads, const std::function<bool()>& is_late);

  // Of all choices within the rooms, in the space's shifted ticks; never falls.
  [[nodiscard]] double bound() const;
  // Nothing can raise the bound any more: it is above the goal, or the cost of a choice.
  [[nodiscard]] bool is_done() const;
  // Leaves hold as much as they may, and grow() does nothing.
  [[nodiscard]] bool is_full() const { return open_.size() >= most_leaves_; }
  // The best choice that leaves ended in; its cost is infinity if none did, and no higher than the goal.
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return choice_; }
  [[nodiscard]] double cost() const { return ended_cost_; }
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  struct Leaf {
    PriceAscent ascent;
    ByteSwings swings;
    double bound = 0;
  };
  struct Task {  // a leaf to be made
    std::shared_ptr<const Leaf> parent;
    std::vector<std::size_t> dropped;  // strategies that the parent has and it has not
  };

  [[nodiscard]] std::vector<Task> next_tasks();
  [[nodiscard]] std::unique_ptr<Leaf> make(const Task& task, const std::function<bool()>& is_late) const;
  void end(const Leaf& leaf);
  void push(std::shared_ptr<const Leaf> leaf);

  const CompactSpace& space_;
  const double goal_;
  std::size_t most_leaves_;
  std::shared_ptr<const Leaf> root_;  // until messages have been passed in it
  std::vector<std::shared_ptr<const Leaf>> open_;  // a heap, the lowest bound first
  double ended_cost_ = kNever;  // of choice_
  std::vector<std::uint32_t> choice_;
  std::int64_t work_ = 0;
};

}  // namespace meshwright
