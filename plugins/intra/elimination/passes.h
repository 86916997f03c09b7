// Passes over a join plan. The forward pass gives the least cost and a choice that has it (exact plans) or a lower
// bound and a choice (split plans); the backward pass gives min-marginals: for each strategy, how much the least cost
// rises if it must be taken.
//
// Messages are kept less their minimum, so that identical layers, whose messages differ by a constant, make identical
// joins; and identical joins are computed once (the memo, which can be switched off to show what it is worth).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "join.h"
#include "join_plan.h"
#include "meter.h"

namespace meshwright::elimination {

using Unaries = std::vector<std::vector<Ticks>>;

struct Forward {
  bool allowed = true;  // false: every choice is forbidden
  TickSum value = 0;    // the least cost, or a lower bound of it
  std::vector<std::uint32_t> choice;
  std::vector<TableId> messages;  // by bucket; valid until the next forward pass
  std::vector<TickSum> offsets;   // by bucket: what was taken off the message, its children's included
  std::vector<TableId> unaries;
  bool masks = false;
};

struct Backward {
  Unaries rise;                  // by variable and strategy; kForbidden if no allowed choice has it
  std::vector<TableId> outside;  // by bucket, over its separator: the least cost of the rest, less a constant
};

class Passes {
 public:
  Passes(Problem& problem, const JoinPlan& plan, Meter& meter, bool memo)
      : problem_(problem), plan_(plan), meter_(meter), memo_(memo) {}

  // With `masks`, pairs only allow or forbid. Nothing if the meter is exhausted.
  std::optional<Forward> forward(const Unaries& unary, bool masks);
  // Of the latest forward pass, on an exact plan.
  std::optional<Backward> backward(const Forward& forward);

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const JoinPlan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<Ticks>& table(TableId id) const { return problem_.store[id]; }
  [[nodiscard]] TableId table_of(const Component& component, const Forward& forward) const;
  Meter& meter() { return meter_; }
  [[nodiscard]] bool memo() const { return memo_; }

 private:
  using Key = std::vector<std::uint32_t>;
  struct Joined {
    TableId message;
    Ticks offset;
  };
  struct Spread {
    std::vector<TableId> to_children;
    std::vector<Ticks> rise;
  };

  [[nodiscard]] std::vector<TableId> inputs_of(const Bucket& bucket, const Forward& forward) const;
  [[nodiscard]] Key key_of(const Bucket& bucket, const std::vector<TableId>& tables) const;
  JoinInput join_input(const Bucket& bucket, const std::vector<TableId>& tables) const;
  Spread spread(const Bucket& bucket, const std::vector<TableId>& tables, TableId outside, const Forward& forward);
  void trace_back(Forward& forward) const;

  Problem& problem_;
  const JoinPlan& plan_;
  Meter& meter_;
  bool memo_;
  std::map<Key, Joined> joined_;
};

}  // namespace meshwright::elimination
