// A StrategySpace as elimination wants it: one table for each pair of variables, tables interned in both directions,
// entries of kForbidden and nothing above, and no sum of allowed costs that reaches half of kForbidden; the other half
// is for the multipliers' share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "meshwright/strategy_space.h"
#include "table_store.h"

namespace meshwright::elimination {

struct Pair {
  std::uint32_t first = 0;   // rows
  std::uint32_t second = 0;  // columns
  TableId table = 0;
  TableId mask = 0;  // 0 where the table is allowed, kForbidden elsewhere: for passes that minimize bytes
};

struct Problem {
  std::vector<std::uint32_t> domains;
  std::vector<std::vector<Ticks>> unary;
  std::vector<Pair> pairs;
  TableStore store;
  std::size_t base_tables = 0;  // the store's size when only the pairs' tables are in it

  [[nodiscard]] std::size_t size() const { return domains.size(); }
};

// By how many bits costs must be shifted right for their sums to fit: 0 for any space made from a model.
int needed_shift(const StrategySpace& space);
// The same space with costs divided by 2^shift, rounded down: its least cost times 2^shift is a lower bound.
StrategySpace shift_costs(const StrategySpace& space, int shift);

// Of a space that needs no shift.
Problem make_problem(const StrategySpace& space);

// A point in time and what each variable holds at it, by strategy, beyond the least of its strategies; empty where that
// is nothing. `least` is the sum of those leasts and of what is held whatever is chosen.
struct MemoryPoint {
  std::int32_t time = 0;
  std::int64_t least = 0;
  std::vector<std::vector<std::int64_t>> bytes;
};

MemoryPoint memory_at(const StrategySpace& space, std::int32_t time);

}  // namespace meshwright::elimination
