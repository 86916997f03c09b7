#include "pivot_search.h"

#include <algorithm>

namespace meshwright {

namespace {

constexpr double kBetter = 1 - 1e-12;

}  // namespace

PivotSearch::PivotSearch(const StepStages& stages, const FlightClasses* flights)
    : stages_(stages), flights_(flights), width_(stages.problem().devices + std::size_t{1}), microbatches_(stages.problem().microbatches) {}

std::optional<FoundPivot> PivotSearch::search(double pace, double below, std::size_t most_labels, double most_work) {
  pace_ = pace;
  below_ = below;
  most_labels_ = most_labels;
  work_ = 0;
  complete_ = true;
  stopped_ = false;
  bands_.clear();
  for (std::uint32_t node = 0; node <= stages_.nodes(); ++node) bands_.push_back(stages_.band(node, pace));
  states_.assign(classes() * (stages_.nodes() + std::size_t{1}) * width_, {});
  for (std::uint32_t node = stages_.nodes(); node-- > 0;) {
    for (const StageSize& size : stages_.sizes()) fill(node, size);
    if (work_ > most_work) {
      complete_ = false;
      stopped_ = true;
      return std::nullopt;
    }
    if (node > 0) cross(node);
  }
  return best();
}

// All stages of that size that begin with the node.
void PivotSearch::fill(std::uint32_t node, const StageSize& size) {
  if (bands_[node].begin >= bands_[node].end) return;
  std::vector<WayHere> ways;
  for (const std::uint32_t way : size.ways) ways.push_back({way, {}, 0, 0, 0});
  for (std::uint32_t to = node + 1; to <= stages_.nodes(); ++to) {
    extend(ways, node, to);
    bool any = false;
    for (std::size_t of = 0; of < classes(); ++of) {
      const std::vector<const WayHere*> here = useful(ways, of);
      if (here.empty()) break;  // with more in flight less fits
      any = true;
      for (const WayHere* way : here) {
        if (to == stages_.nodes()) {
          if (of == 0) end_with(node, size, *way);
          continue;
        }
        if (of > 0) put_in_front(node, to, size, of, of - 1, *way);
        if (of + 1 == classes()) put_in_front(node, to, size, of, of, *way);
      }
    }
    if (!any) return;  // a longer stage takes longer, and holds more
  }
}

void PivotSearch::extend(std::vector<WayHere>& ways, std::uint32_t from, std::uint32_t to) const {
  for (WayHere& way : ways) {
    const StageSums sums = stages_.sums(way.way, from, to);
    way.part = {sums.forward, sums.backward, sums.once};
    way.passing = std::max(way.passing, stages_.problem().ways[way.way].nodes[to - 1].passing_bytes);
    way.saved = sums.saved;
    way.bytes = sums.resident + way.passing;
  }
}

// Within the pace and within memory. A slower way may be of use: as the pivot.
std::vector<const PivotSearch::WayHere*> PivotSearch::useful(const std::vector<WayHere>& ways, std::size_t of) const {
  std::vector<const WayHere*> kept;
  for (const WayHere& way : ways) {
    if (way.part.both() > pace_) continue;
    if (flights_ == nullptr || way.bytes + flights_->in_flight(of) * way.saved <= stages_.device_bytes()) kept.push_back(&way);
  }
  return kept;
}

void PivotSearch::end_with(std::uint32_t node, const StageSize& size, const WayHere& way) {
  const std::uint32_t first = stages_.problem().devices - size.devices;
  const StepStages::Band& here = bands_[node];
  if (first < here.begin || first >= here.end || !std::ranges::binary_search(size.firsts, first)) return;
  PivotLabel link;
  link.to = stages_.nodes();
  link.way = way.way;
  State& made = state(0, node, first);
  add(made, node, as_pivot(nullptr, way.part, microbatches_), true, link);
  add(made, node, without_pivot(nullptr, way.part, microbatches_), false, link);
  cut(made, node);
}

void PivotSearch::put_in_front(std::uint32_t node, std::uint32_t to, const StageSize& size, std::size_t of, std::size_t next, const WayHere& way) {
  const StepStages::Band &here = bands_[node], &there = bands_[to];
  const std::uint32_t begin = std::max(here.begin, there.begin - std::min(there.begin, size.devices));
  const std::uint32_t end = std::min(here.end, there.end - std::min(there.end, size.devices));
  PivotLabel link;
  link.to = to;
  link.way = way.way;
  link.next_class = static_cast<std::uint32_t>(next);
  for (auto first = std::ranges::lower_bound(size.firsts, begin); first != size.firsts.end() && *first < end; ++first) {
    const State& behind = state(next, to, *first + size.devices);
    State& made = state(of, node, *first);
    link.next_has_pivot = false;
    for (link.next_label = 0; link.next_label < behind.open.all().size(); ++link.next_label) {
      const PivotLabel& label = behind.open.all()[link.next_label];
      add(made, node, as_pivot(&label, way.part, microbatches_), true, link);
      add(made, node, without_pivot(&label, way.part, microbatches_), false, link);
    }
    link.next_has_pivot = true;
    for (link.next_label = 0; link.next_label < behind.pivoted.all().size(); ++link.next_label) {
      add(made, node, before_pivot(behind.pivoted.all()[link.next_label], way.part, microbatches_), true, link);
    }
    cut(made, node);
  }
}

// What is before the node takes its forward and its backward at least. Without a pivot one comes for which (M - 1) (F + B) is more than what is there, and which takes its own F + B besides.
double PivotSearch::bound(std::uint32_t node, const PivotLabel& label, bool has_pivot) const {
  if (!has_pivot) return microbatches_ > 1 ? label.reach * microbatches_ / (microbatches_ - 1) : 0;
  return label.seconds + stages_.least_forward(node) + std::max(label.ending, label.backward + stages_.least_backward(node));
}

void PivotSearch::add(State& state, std::uint32_t node, const std::optional<PivotLabel>& label, bool has_pivot, const PivotLabel& link) {
  ++work_;
  if (!label || bound(node, *label, has_pivot) >= below_ * kBetter) return;
  PivotLabel linked = *label;
  linked.to = link.to;
  linked.way = link.way;
  linked.next_class = link.next_class;
  linked.next_label = link.next_label;
  linked.next_has_pivot = link.next_has_pivot;
  (has_pivot ? state.pivoted : state.open).add(linked);
}

void PivotSearch::cut(State& state, std::uint32_t node) {
  for (const bool has_pivot : {false, true}) {
    PivotLabels& labels = has_pivot ? state.pivoted : state.open;
    if (!labels.cut(most_labels_, [&](const PivotLabel& label) { return bound(node, label, has_pivot); })) complete_ = false;
  }
}

void PivotSearch::cross(std::uint32_t node) {
  const double seconds = stages_.problem().nodes[node - 1].crossing_seconds;
  const PivotPart crossing{seconds, seconds, 0};
  for (std::size_t of = 0; of < classes(); ++of) {
    for (std::uint32_t first = bands_[node].begin; first < bands_[node].end; ++first) {
      State& here = state(of, node, first);
      State crossed;
      for (const PivotLabel& label : here.open.all()) {
        add(crossed, node, as_pivot(&label, crossing, microbatches_), true, label);
        add(crossed, node, without_pivot(&label, crossing, microbatches_), false, label);
      }
      for (const PivotLabel& label : here.pivoted.all()) add(crossed, node, before_pivot(label, crossing, microbatches_), true, label);
      cut(crossed, node);
      here = std::move(crossed);
    }
  }
}

std::optional<FoundPivot> PivotSearch::best() {
  const PivotLabel* best = nullptr;
  for (std::size_t of = 0; of < classes(); ++of) {
    for (const PivotLabel& label : state(of, 0, 0).pivoted.all()) {
      if (best == nullptr || label.seconds + label.ending < best->seconds + best->ending) best = &label;
    }
  }
  if (best == nullptr) return std::nullopt;
  FoundPivot found{best->seconds + best->ending, {}};
  std::uint32_t node = 0, first = 0;
  for (const PivotLabel* label = best;;) {
    found.stages.push_back(placed_stage(stages_.problem(), label->way, node, label->to));
    if (label->to == stages_.nodes()) return found;
    first += stages_.problem().ways[label->way].devices;
    node = label->to;
    const State& next = state(label->next_class, node, first);
    label = &(label->next_has_pivot ? next.pivoted : next.open).all()[label->next_label];
  }
}

}  // namespace meshwright
