#include "menu_table.h"

#include <algorithm>
#include <limits>

namespace meshwright {

namespace {

constexpr std::size_t kMostMenuLabels = 48;  // of each entry
constexpr double kRoundOff = 1e-12;          // of bytes, as `evaluate` allows

}  // namespace

MenuTable::MenuTable(const MenuProblem& problem, const Menu& menu, std::uint32_t first, double in_flight)
    : problem_(problem), menu_(menu), first_(first), in_flight_(in_flight), device_bytes_(problem.device_bytes * (1 + kRoundOff)) {
  const auto nodes = static_cast<std::uint32_t>(problem.nodes.size());
  for (std::uint32_t node = first; node < nodes; ++node) {
    grow(node);
    const std::vector<Label>& labels = labels_.back();
    const auto best = std::ranges::min_element(labels, {}, &Label::seconds);
    const double crossing = node + 1 < nodes ? 2 * problem.nodes[node].crossing_seconds : 0;
    seconds_.push_back(best == labels.end() ? std::numeric_limits<double>::infinity() : best->seconds + crossing);
  }
}

MenuTable::Label MenuTable::with(std::uint32_t node, std::uint32_t entry, Label before) const {
  const StepCost& cost = menu_.entries[entry].nodes[node];
  before.seconds += cost.forward_seconds + cost.backward_seconds + cost.once_seconds / problem_.microbatches;
  if (node > first_) before.seconds += menu_.change(node - 1, before.entry, entry);
  before.bytes += cost.resident_bytes + in_flight_ * cost.saved_bytes;
  before.passing = std::max(before.passing, cost.passing_bytes);
  before.entry = entry;
  return before;
}

void MenuTable::add(std::vector<Label>& labels, const Label& label) const {
  if (label.bytes + label.passing <= device_bytes_) labels.push_back(label);
}

void MenuTable::grow(std::uint32_t node) {
  std::vector<Label> grown;
  for (std::uint32_t entry = 0; entry < menu_.entries.size(); ++entry) {
    std::vector<Label> here;
    if (node == first_) {
      add(here, with(node, entry, {}));
    } else {
      const std::vector<Label>& before = labels_.back();
      for (std::uint32_t i = 0; i < before.size(); ++i) {
        Label label = with(node, entry, before[i]);
        label.before = i;
        add(here, label);
      }
    }
    keep_best(here);
    grown.insert(grown.end(), here.begin(), here.end());
  }
  labels_.push_back(std::move(grown));
}

// None that another one is better than in all; of too many every so many-th, by seconds, the first and the last among them.
void MenuTable::keep_best(std::vector<Label>& labels) {
  std::ranges::stable_sort(labels, [](const Label& a, const Label& b) { return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes != b.bytes ? a.bytes < b.bytes : a.passing < b.passing; });
  std::vector<Label> best;
  for (const Label& label : labels) {
    const auto is_better = [&](const Label& other) { return other.bytes <= label.bytes && other.passing <= label.passing; };
    if (std::ranges::none_of(best, is_better)) best.push_back(label);
  }
  if (best.size() > kMostMenuLabels) {
    exact_ = false;
    std::vector<Label> spread;
    for (std::size_t i = 0; i < kMostMenuLabels; ++i) spread.push_back(best[i * (best.size() - 1) / (kMostMenuLabels - 1)]);
    best = std::move(spread);
  }
  labels = std::move(best);
}

std::vector<std::uint32_t> MenuTable::entries(std::uint32_t end) const {
  std::vector<std::uint32_t> entries(end - first_);
  std::size_t at = entries.size() - 1;
  const Label* label = &*std::ranges::min_element(labels_[at], {}, &Label::seconds);
  for (;; --at) {
    entries[at] = label->entry;
    if (at == 0) return entries;
    label = &labels_[at - 1][label->before];
  }
}

}  // namespace meshwright
