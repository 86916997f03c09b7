// The arithmetic of one bucket: the sum of tables over a scope of variables, whole or with its first variable
// minimized out. kForbidden absorbs: a sum with it is kForbidden, and no other sum reaches it (problem.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright::elimination {

// A table and, for each of its dimensions in row-major order, where its variable stands in the scope.
struct JoinTable {
  const std::vector<Ticks>* values = nullptr;
  const std::vector<std::uint32_t>* positions = nullptr;
};

struct JoinInput {
  std::vector<std::size_t> domains;  // of the scope; the first variable is the one to eliminate
  std::vector<JoinTable> tables;
};

std::size_t entries(const JoinInput& input);

// Over the scope but its first variable, row-major.
std::vector<Ticks> join_and_minimize(const JoinInput& input);

// Over the whole scope, row-major.
std::vector<Ticks> join(const JoinInput& input);

// The minimum of a table over the dimensions that `kept` does not name. `kept` lists positions; the result is row-major
// in that order.
std::vector<Ticks> project(const std::vector<Ticks>& table, const std::vector<std::size_t>& domains,
                           const std::vector<std::uint32_t>& kept);

}  // namespace meshwright::elimination
