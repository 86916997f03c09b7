// A mixed-integer linear program as plain data, for any solver: minimize Σ cost·x subject to rows, 0 ≤ x ≤ upper.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace meshwright {

struct LinearEntry {
  std::uint32_t column = 0;
  double factor = 0;
};

enum class Relation : std::uint8_t { equal, at_most };

struct LinearRow {
  std::vector<LinearEntry> entries;  // columns ascend
  Relation relation = Relation::equal;
  double right = 0;
};

struct LinearColumn {
  double cost = 0;
  double upper = std::numeric_limits<double>::infinity();
  bool integer = false;
};

struct LinearProgram {
  std::vector<LinearColumn> columns;
  std::vector<LinearRow> rows;
};

}  // namespace meshwright
