#include "nearest_name.h"

#include <algorithm>
#include <numeric>

namespace meshwright::host {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
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

}  // namespace meshwright::host
