#include "nearest_name.h"

#include <algorithm>
#include <numeric>

namespace meshwright {
namespace {

// Letters to insert, delete, replace or swap with their neighbour: the slips of a hand that types.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> older(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    older.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j - 1] + (same ? 0 : 1), above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], older[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view wanted, std::span<const std::string> known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(wanted, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

std::string suggest(std::string_view wanted, const std::vector<std::string>& known) {
  if (known.empty()) return "; there are none";
  if (const std::string near = nearest_name(wanted, known); !near.empty()) return "; did you mean \"" + near + "\"?";
  std::string text = "; known are ";
  for (std::size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "\"" : ", \"") + known[i] + "\"";
  return text;
}

}  // namespace meshwright
