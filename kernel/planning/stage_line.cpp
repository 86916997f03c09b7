#include "stage_line.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "meshwright/ticks.h"

namespace meshwright {

namespace {

constexpr int kHalvingsOfPace = 40;   // of the range in which the longest stage is looked for
constexpr int kMostUnitMoves = 64;  // of one unit from a stage to the next
constexpr double kShorter = 1 - 1e-9;

UnitCost with_seconds(const UnitCost& cost, double factor) {
  UnitCost made = cost * factor;
  made.resident_bytes = cost.resident_bytes;
  made.saved_bytes = cost.saved_bytes;
  return made;
}

double bytes_of(const UnitCost& cost, double in_flight) { return cost.resident_bytes + in_flight * cost.saved_bytes + cost.passing_bytes; }

// Communication that takes longer than the computing beside it makes that longer; that of the last backward is waited for before the updates.
StageCost stage_of(std::size_t way, std::size_t mesh, const UnitCost& cost, double bytes) {
  const double waits = std::max(cost.backward_beside_seconds - cost.backward_seconds(), 0.0), last = std::max(cost.last_beside_seconds - cost.backward_seconds() - waits, cost.wait_seconds);
  return {mesh, std::max(cost.forward_seconds, cost.forward_beside_seconds), cost.input_gradient_seconds + waits, cost.weight_gradient_seconds, cost.update_seconds + last, bytes, 0, way, way, 1, 0};
}

// A part of the one, and the rest of the other.
StageCost mixed(const StageCost& one, const StageCost& other, double part) {
  const auto mix = [&](double a, double b) { return part * a + (1 - part) * b; };
  return {one.mesh, mix(one.forward_seconds, other.forward_seconds), mix(one.input_gradient_seconds, other.input_gradient_seconds), mix(one.weight_gradient_seconds, other.weight_gradient_seconds),
          mix(one.update_seconds, other.update_seconds), mix(one.bytes, other.bytes), 0, one.faster, other.faster, part, one.bytes - other.bytes};
}

}  // namespace

PipelineSchedule one_stage(std::int64_t microbatches) {
  PipelineSchedule schedule{{1, 1, static_cast<std::uint32_t>(microbatches)}, {0}, {{}}};
  for (std::uint32_t i = 0; i < schedule.shape.microbatches; ++i) {
    schedule.order[0].push_back({PipelineEventKind::forward, 0, i});
    schedule.order[0].push_back({PipelineEventKind::backward, 0, i});
  }
  return schedule;
}

std::vector<double> in_flight_by_position(const PipelineSchedule& schedule) {
  std::vector<double> most(schedule.shape.positions(), 0), now(most.size(), 0);
  for (std::size_t group = 0; group < schedule.order.size(); ++group) {
    for (const PipelineEvent& event : schedule.order[group]) {
      const std::uint32_t position = schedule.position(group, event.chunk);
      if (event.kind == PipelineEventKind::forward) most[position] = std::max(most[position], ++now[position]);
      else if (event.kind != PipelineEventKind::input_gradient) --now[position];
    }
  }
  return most;
}

void StageLine::add_way(std::size_t mesh, const std::vector<UnitCost>& by_kind) {
  ways_.push_back({mesh, by_kind, {}});
  sum_up(ways_.back());
}

void StageLine::sum_up(Way& way) const {
  way.before.assign(1, {});
  for (std::size_t u = 0; u < units_.units.size(); ++u) {
    UnitCost cost = way.by_kind[units_.units[u].kind];
    cost.passing_bytes = 0;
    way.before.push_back(way.before.back() + (factors_.empty() ? cost : with_seconds(cost, factors_[u])));
  }
}

void StageLine::correct(std::size_t from, std::size_t to, double factor) {
  if (factors_.empty()) factors_.assign(units_.units.size(), 1);
  for (std::size_t u = from; u < to; ++u) factors_[u] *= factor;
  for (Way& way : ways_) sum_up(way);
}

UnitCost StageLine::sum(const Way& way, std::size_t from, std::size_t to) const {
  UnitCost cost = way.before[to] + way.before[from] * -1;
  for (std::size_t u = from; u < to; ++u) cost.passing_bytes = std::max(cost.passing_bytes, way.by_kind[units_.units[u].kind].passing_bytes);
  return cost;
}

std::optional<StageCost> StageLine::stage(std::size_t from, std::size_t to, double in_flight, double bytes) const {
  std::vector<StageCost> all;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    const UnitCost cost = sum(ways_[way], from, to);
    all.push_back(stage_of(way, ways_[way].mesh, cost, bytes_of(cost, in_flight)));
  }
  std::optional<StageCost> best;
  const auto keep = [&](const StageCost& cost) {
    if (!best || cost.step_seconds(microbatches_) < best->step_seconds(microbatches_)) best = cost;
  };
  for (const StageCost& fitting : all) {
    if (fitting.bytes > bytes) continue;
    keep(fitting);
    for (const StageCost& faster : all) {
      const double saved = fitting.step_seconds(microbatches_) - faster.step_seconds(microbatches_);
      if (faster.mesh != fitting.mesh || faster.bytes <= bytes || saved <= 0) continue;
      StageCost mixture = mixed(faster, fitting, (bytes - fitting.bytes) / (faster.bytes - fitting.bytes));
      mixture.price = saved / (faster.bytes - fitting.bytes);
      keep(mixture);
    }
  }
  return best;
}

// By position the unit behind its last one, as many to each as it does within the time, and at least one.
std::optional<std::vector<std::size_t>> StageLine::fill(const PipelineSchedule& schedule, std::span<const double> in_flight, double bytes, double longest) const {
  const std::size_t positions = schedule.shape.positions();
  std::vector<std::size_t> ends;
  std::size_t from = 0;
  for (std::size_t position = 0; position < positions; ++position) {
    const std::size_t most = size() - (positions - 1 - position);  // the others take one at least
    const auto fits = [&](std::size_t to) {
      const std::optional<StageCost> cost = stage(from, to, in_flight[position], bytes);
      return cost && cost->step_seconds(microbatches_) <= longest;
    };
    if (!fits(from + 1)) return std::nullopt;
    std::size_t least = from + 1, above = most + 1;
    while (above - least > 1) {
      const std::size_t middle = least + (above - least) / 2;
      (fits(middle) ? least : above) = middle;
    }
    from = least;
    ends.push_back(from);
  }
  if (from != size()) return std::nullopt;
  return ends;
}

std::optional<LineCut> StageLine::estimate(const PipelineSchedule& schedule, std::vector<std::size_t> ends, std::span<const double> in_flight, double bytes, double hop_seconds) const {
  LineCut made{std::move(ends), {}, 0};
  std::vector<PositionTicks> ticks;
  std::size_t from = 0;
  double update = 0;
  for (std::size_t position = 0; position < made.ends.size(); ++position) {
    const std::optional<StageCost> cost = stage(from, made.ends[position], in_flight[position], bytes);
    if (!cost) return std::nullopt;
    ticks.push_back({to_ticks(cost->forward_seconds), to_ticks(cost->backward_seconds()), to_ticks(cost->input_gradient_seconds), to_ticks(cost->weight_gradient_seconds)});
    update = std::max(update, schedule.shape.chunks * cost->update_seconds);
    made.stages.push_back(*cost);
    from = made.ends[position];
  }
  const Result<PipelineTimeline> times = timeline(schedule, ticks);
  if (!times) return std::nullopt;
  made.step_seconds = to_seconds(times->makespan) + update + 2 * hop_seconds * static_cast<double>(made.ends.size() - 1);
  return made;
}

std::optional<LineCut> StageLine::cut(const PipelineSchedule& schedule, double bytes, double hop_seconds) const {
  const std::size_t positions = schedule.shape.positions();
  if (positions > size()) return std::nullopt;
  bytes /= schedule.shape.chunks;
  const std::vector<double> in_flight = in_flight_by_position(schedule);
  double most = 0;
  for (const Way& way : ways_) {
    most = std::max(most, stage_of(0, way.mesh, way.before.back(), 0).step_seconds(microbatches_));
  }
  std::optional<std::vector<std::size_t>> ends = fill(schedule, in_flight, bytes, most);
  if (!ends) return std::nullopt;
  double least = 0;
  for (int i = 0; i < kHalvingsOfPace; ++i) {
    const double middle = least + (most - least) / 2;
    std::optional<std::vector<std::size_t>> found = fill(schedule, in_flight, bytes, middle);
    (found ? most : least) = middle;
    if (found) ends = std::move(found);
  }
  return estimate(schedule, std::move(*ends), in_flight, bytes, hop_seconds);
}

LineCut StageLine::moved(LineCut cut, const PipelineSchedule& schedule, double bytes, double hop_seconds) const {
  bytes /= schedule.shape.chunks;
  const std::vector<double> in_flight = in_flight_by_position(schedule);
  for (int move = 0; move < kMostUnitMoves; ++move) {
    std::optional<LineCut> better;
    for (std::size_t border = 0; border + 1 < cut.ends.size(); ++border) {
      for (const int by : {-1, 1}) {
        std::vector<std::size_t> ends = cut.ends;
        ends[border] += static_cast<std::size_t>(by);
        if (ends[border] <= (border == 0 ? 0 : ends[border - 1]) || ends[border] >= ends[border + 1]) continue;
        std::optional<LineCut> tried = estimate(schedule, std::move(ends), in_flight, bytes, hop_seconds);
        if (tried && tried->step_seconds < kShorter * (better ? better->step_seconds : cut.step_seconds)) better = std::move(tried);
      }
    }
    if (!better) break;
    cut = std::move(*better);
  }
  return cut;
}

}  // namespace meshwright
