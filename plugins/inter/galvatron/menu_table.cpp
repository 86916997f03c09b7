#include "menu_table.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace meshwright {

namespace {

constexpr std::size_t kMostMenuLabels = 128; // of each entry
constexpr double kRoundOff = 1e-12;          // of bytes, as `evaluate` allows

}  // namespace

MenuTable::MenuTable(const MenuProblem& problem, const Menu& menu, std::uint32_t first, double in_flight)
    : problem_(problem), menu_(menu), first_(first), in_flight_(in_flight), device_bytes_(problem.device_bytes * (1 + kRoundOff)) {
  const auto nodes = static_cast<std::uint32_t>(problem.nodes.size());
  for (std::uint32_t node = first; node < nodes; ++node) grow(node, true, fastest_);
  const auto fastest_fits = [&](const std::vector<Label>& labels) { return fits(*std::ranges::min_element(labels, {}, &Label::seconds)); };
  if (!std::ranges::all_of(fastest_, fastest_fits)) {
    for (std::uint32_t node = first; node < nodes; ++node) grow(node, false, fitting_);
  }
  for (std::uint32_t node = first; node < nodes; ++node) {
    const Labels* of = nullptr;
    const Label* label = best(node - first, of);
    const double crossing = node + 1 < nodes ? 2 * problem.nodes[node].crossing_seconds : 0;
    seconds_.push_back(label == nullptr ? std::numeric_limits<double>::infinity() : label->seconds + crossing);
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

const MenuTable::Label* MenuTable::best(std::size_t at, const Labels*& of) const {
  of = &fastest_;
  const Label* fastest = &*std::ranges::min_element(fastest_[at], {}, &Label::seconds);
  if (fits(*fastest)) return fastest;
  of = &fitting_;
  const auto found = std::ranges::min_element(fitting_[at], {}, &Label::seconds);
  return found == fitting_[at].end() ? nullptr : &*found;
}

// `by_seconds`: one label for each entry, whether it fits or not.
void MenuTable::grow(std::uint32_t node, bool by_seconds, Labels& labels) {
  std::vector<Label> grown;
  for (std::uint32_t entry = 0; entry < menu_.entries.size(); ++entry) {
    std::vector<Label> here;
    const auto add = [&](Label label, std::uint32_t before) {
      label.before = before;
      if (by_seconds || fits(label)) here.push_back(label);
    };
    if (node == first_) add(with(node, entry, {}), 0);
    for (std::uint32_t i = 0; node > first_ && i < labels.back().size(); ++i) add(with(node, entry, labels.back()[i]), i);
    if (by_seconds) here = {*std::ranges::min_element(here, {}, &Label::seconds)};
    else keep_best(here);
    grown.insert(grown.end(), here.begin(), here.end());
  }
  labels.push_back(std::move(grown));
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
  const Labels* of = nullptr;
  const Label* label = best(at, of);
  for (;; --at) {
    entries[at] = label->entry;
    if (at == 0) return entries;
    label = &(*of)[at - 1][label->before];
  }
}

}  // namespace meshwright
