#include "step_table.h"

#include <algorithm>
#include <limits>

namespace meshwright {

namespace {

constexpr double kNoStages = std::numeric_limits<double>::infinity();

}  // namespace

StepTable::StepTable(const StepStages& stages, const FlightClasses* flights) : stages_(stages), flights_(flights), width_(stages.problem().devices + std::size_t{1}) {}

std::optional<FoundSteps> StepTable::within(double pace) {
  pace_ = pace;
  bands_.clear();
  for (std::uint32_t node = 0; node <= stages_.nodes(); ++node) bands_.push_back(stages_.band(node, pace));
  const std::size_t states = classes() * (stages_.nodes() + std::size_t{1}) * width_;
  sums_.assign(states, kNoStages);
  choices_.resize(states);
  for (std::uint32_t node = stages_.nodes(); node-- > 0;) {
    for (const StageSize& size : stages_.sizes()) fill(node, size);
  }
  std::size_t best = 0;
  for (std::size_t of = 1; of < classes(); ++of) {
    if (sums_[state(of, 0, 0)] < sums_[state(best, 0, 0)]) best = of;
  }
  if (sums_[state(best, 0, 0)] == kNoStages) return std::nullopt;
  return read(best);
}

// All stages of that size that begin with the node.
void StepTable::fill(std::uint32_t node, const StageSize& size) {
  if (bands_[node].begin >= bands_[node].end) return;
  std::vector<WayHere> ways;
  for (const std::uint32_t way : size.ways) ways.push_back({way, 0, 0, 0, 0});
  for (std::uint32_t to = node + 1; to <= stages_.nodes(); ++to) {
    extend(ways, node, to);
    bool any = false;
    for (std::size_t of = 0; of < classes(); ++of) {
      const WayHere* way = fastest(ways, of);
      if (way == nullptr) break;  // with more in flight less fits
      any = true;
      const bool is_last = to == stages_.nodes();
      if (is_last && of == 0) relax(node, to, size, of, 0, *way);
      if (is_last) continue;
      if (of > 0) relax(node, to, size, of, of - 1, *way);
      if (of + 1 == classes()) relax(node, to, size, of, of, *way);
    }
    if (!any) return;  // a longer stage takes longer, and holds more
  }
}

void StepTable::extend(std::vector<WayHere>& ways, std::uint32_t from, std::uint32_t to) const {
  for (WayHere& way : ways) {
    const StageSums sums = stages_.sums(way.way, from, to);
    way.seconds = sums.both() + sums.once / stages_.problem().microbatches;
    way.passing = std::max(way.passing, stages_.problem().ways[way.way].nodes[to - 1].passing_bytes);
    way.saved = sums.saved;
    way.bytes = sums.resident + way.passing;
  }
}

// Within the pace, and within memory; null if none is.
const StepTable::WayHere* StepTable::fastest(const std::vector<WayHere>& ways, std::size_t of) const {
  const WayHere* best = nullptr;
  for (const WayHere& way : ways) {
    if (way.seconds > pace_ || (best != nullptr && way.seconds >= best->seconds)) continue;
    if (flights_ != nullptr && way.bytes + flights_->in_flight(of) * way.saved > stages_.device_bytes()) continue;
    best = &way;
  }
  return best;
}

void StepTable::relax(std::uint32_t node, std::uint32_t to, const StageSize& size, std::size_t of, std::size_t next, const WayHere& way) {
  const StepStages::Band &here = bands_[node], &there = bands_[to];
  const std::uint32_t begin = std::max(here.begin, there.begin - std::min(there.begin, size.devices));
  const std::uint32_t end = std::min(here.end, there.end - std::min(there.end, size.devices));
  const bool is_last = to == stages_.nodes();
  double* sums = &sums_[state(of, node, 0)];
  Choice* choices = &choices_[state(of, node, 0)];
  const double* behind = &sums_[state(next, to, 0)];
  for (auto first = std::ranges::lower_bound(size.firsts, begin); first != size.firsts.end() && *first < end; ++first) {
    const double sum = way.seconds + (is_last ? 0 : behind[*first + size.devices]);
    ++work_;
    if (sum >= sums[*first]) continue;
    sums[*first] = sum;
    choices[*first] = {way.way, static_cast<std::uint16_t>(to), static_cast<std::uint16_t>(next)};
  }
}

FoundSteps StepTable::read(std::size_t of) const {
  FoundSteps found;
  std::uint32_t node = 0, first = 0;
  while (node < stages_.nodes()) {
    const Choice& choice = choices_[state(of, node, first)];
    const StageSums sums = stages_.sums(choice.way, node, choice.to);
    const double seconds = sums.both() + sums.once / stages_.problem().microbatches;
    found.sum += seconds;
    found.longest = std::max(found.longest, seconds);
    found.stages.push_back(placed_stage(stages_.problem(), choice.way, node, choice.to));
    first += stages_.problem().ways[choice.way].devices;
    node = choice.to;
    of = choice.next;
  }
  return found;
}

}  // namespace meshwright
