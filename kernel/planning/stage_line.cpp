#include "stage_line.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "meshwright/ticks.h"

namespace meshwright {

namespace {

constexpr int kHalvingsOfPace = 40;   // of the range in which the longest stage is looked for
constexpr int kHalvingsOfFreePace = 24;
constexpr int kMostUnitMoves = 64;  // of one unit from a stage to the next
constexpr double kShorter = 1 - 1e-9;

UnitCost with_seconds(const UnitCost& cost, double factor) {
  UnitCost made = cost * factor;
  made.resident_bytes = cost.resident_bytes;
  made.saved_bytes = cost.saved_bytes;
  return made;
}

double bytes_of(const UnitCost& cost, double in_flight) { return cost.resident_bytes + in_flight * cost.saved_bytes + cost.passing_bytes; }

enum class BackwardIs : std::uint8_t { whole, in_parts, of_weights };

// Of a position's units from that one on. Before the first one there is nothing to hand a gradient to: all of its backward may be done last.
BackwardIs backward_from(std::size_t unit, const PositionLoad& load) {
  if (!load.in_parts) return BackwardIs::whole;
  return unit == 0 ? BackwardIs::of_weights : BackwardIs::in_parts;
}

// Communication that takes longer than the computing beside it makes that longer, and in each part of a backward what belongs to it: a part waits for what travels when it ends. That of the last backward is waited for
// before the updates.
StageCost stage_of(std::size_t way, std::size_t mesh, const UnitCost& cost, BackwardIs backward, double bytes) {
  StageCost made{mesh, std::max(cost.forward_seconds, cost.forward_beside_seconds), cost.input_gradient_seconds, cost.weight_gradient_seconds, cost.update_seconds, bytes, 0, way, way, 1, 0};
  const double beside_input = cost.backward_beside_seconds - cost.weight_beside_seconds;
  if (backward == BackwardIs::in_parts) {
    made.input_gradient_seconds = std::max(made.input_gradient_seconds, beside_input);
    made.weight_gradient_seconds = std::max(made.weight_gradient_seconds, cost.weight_beside_seconds);
  } else {
    made.input_gradient_seconds += std::max(cost.backward_beside_seconds - cost.backward_seconds(), 0.0);
  }
  if (backward == BackwardIs::of_weights) made.weight_gradient_seconds += std::exchange(made.input_gradient_seconds, 0);
  const double beside_last = backward == BackwardIs::in_parts ? beside_input + made.weight_gradient_seconds : made.backward_seconds();
  made.update_seconds += std::max(cost.last_beside_seconds - beside_last, cost.wait_seconds);
  return made;
}

// A part of the one, and the rest of the other.
StageCost mixed(const StageCost& one, const StageCost& other, double part) {
  const auto mix = [&](double a, double b) { return part * a + (1 - part) * b; };
  return {one.mesh, mix(one.forward_seconds, other.forward_seconds), mix(one.input_gradient_seconds, other.input_gradient_seconds), mix(one.weight_gradient_seconds, other.weight_gradient_seconds),
          mix(one.update_seconds, other.update_seconds), mix(one.bytes, other.bytes), 0, one.faster, other.faster, part, one.bytes - other.bytes};
}

// No order of a schedule's events takes less: each group waits for the first microbatch to come, and has all microbatches to do; where its backwards are whole, what is before it has the last one to do then.
TickSum least_makespan(const PipelineSchedule& schedule, const std::vector<PositionLoad>& loads, const std::vector<PositionTicks>& ticks) {
  std::vector<TickSum> before = {0}, behind = {0};
  for (const PositionTicks& of : ticks) {
    before.push_back(before.back() + of.forward);
    behind.push_back(behind.back() + of.backward);
  }
  TickSum least = 0;
  for (std::uint32_t group = 0; group < schedule.shape.stages; ++group) {
    std::uint32_t first = schedule.shape.positions();
    TickSum work = 0;
    bool in_parts = false;
    for (std::uint32_t chunk = 0; chunk < schedule.shape.chunks; ++chunk) {
      const std::uint32_t position = schedule.position(group, chunk);
      first = std::min(first, position);
      in_parts = in_parts || loads[position].in_parts;
      work += TickSum{schedule.shape.microbatches} * (ticks[position].forward + ticks[position].backward);
    }
    least = std::max(least, before[first] + work + (in_parts ? 0 : behind[first]));
  }
  return least;
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

bool is_plain(const PipelineSchedule& schedule) {
  if (schedule.shape.chunks > 1) return false;
  for (std::uint32_t group = 0; group < schedule.shape.stages; ++group) {
    if (schedule.position(group, 0) != group) return false;
  }
  return true;
}

std::vector<std::int64_t> by_position(const PipelineSchedule& schedule, const std::vector<std::int64_t>& by_group) {
  std::vector<std::int64_t> made(schedule.shape.positions(), 0);
  for (std::uint32_t group = 0; group < schedule.shape.stages; ++group) {
    for (std::uint32_t chunk = 0; chunk < schedule.shape.chunks; ++chunk) made[schedule.position(group, chunk)] = by_group[group];
  }
  return made;
}

std::vector<PositionLoad> loads_by_position(const PipelineSchedule& schedule) {
  std::vector<PositionLoad> loads(schedule.shape.positions());
  std::vector<double> now(loads.size(), 0);
  for (std::size_t group = 0; group < schedule.order.size(); ++group) {
    for (const PipelineEvent& event : schedule.order[group]) {
      const std::uint32_t position = schedule.position(group, event.chunk);
      PositionLoad& load = loads[position];
      if (event.kind == PipelineEventKind::forward) load.in_flight = std::max(load.in_flight, ++now[position]);
      else if (event.kind == PipelineEventKind::input_gradient) load.in_parts = true;
      else --now[position];
    }
  }
  return loads;
}

void StageLine::add_way(std::size_t mesh, std::int64_t devices, const std::vector<UnitCost>& by_kind) {
  ways_of_[devices].push_back(ways_.size());
  ways_.push_back({mesh, by_kind});
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

std::optional<StageCost> StageLine::stage(std::size_t from, std::size_t to, std::int64_t devices, const PositionLoad& load, double bytes) const {
  const auto known = ways_of_.find(devices);
  if (known == ways_of_.end()) return std::nullopt;
  std::vector<StageCost> all;
  for (const std::size_t way : known->second) {
    const UnitCost cost = sum(ways_[way], from, to);
    all.push_back(stage_of(way, ways_[way].mesh, cost, backward_from(from, load), bytes_of(cost, load.in_flight)));
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
  if (!best || best->price > 0) return best;
  // Where a faster way of another mesh does not fit: what one may cost there that holds so much less.
  double most_saved = 0;
  for (const StageCost& faster : all) {
    const double saved = best->step_seconds(microbatches_) - faster.step_seconds(microbatches_);
    if (faster.bytes <= bytes || saved <= most_saved) continue;
    most_saved = saved;
    best->price = saved / (faster.bytes - bytes);
  }
  return best;
}

// By position the unit behind its last one, as many to each as it does within the time, and at least one.
std::optional<std::vector<std::size_t>> StageLine::fill(std::span<const std::int64_t> devices, std::span<const PositionLoad> loads, double bytes, double longest) const {
  const std::size_t positions = devices.size();
  std::vector<std::size_t> ends;
  std::size_t from = 0;
  for (std::size_t position = 0; position < positions; ++position) {
    const std::size_t most = size() - (positions - 1 - position);  // the others take one at least
    const auto fits = [&](std::size_t to) {
      const std::optional<StageCost> cost = stage(from, to, devices[position], loads[position], bytes);
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

std::optional<LineCut> StageLine::estimate(const PipelineSchedule& schedule, LineShape shape, double bytes, double hop_seconds) const {
  return estimate_below(std::numeric_limits<double>::infinity(), schedule, loads_by_position(schedule), std::move(shape), bytes, hop_seconds);
}

std::optional<LineCut> StageLine::estimate_below(double most_seconds, const PipelineSchedule& schedule, const std::vector<PositionLoad>& loads, LineShape shape, double bytes, double hop_seconds) const {
  bytes /= schedule.shape.chunks;
  LineCut made{std::move(shape), {}, 0};
  std::vector<PositionTicks> ticks;
  std::size_t from = 0;
  double besides = 2 * hop_seconds * static_cast<double>(made.shape.ends.size() - 1), update = 0;
  for (std::size_t position = 0; position < made.shape.ends.size(); ++position) {
    const std::optional<StageCost> cost = stage(from, made.shape.ends[position], made.shape.devices[position], loads[position], bytes);
    if (!cost) return std::nullopt;
    ticks.push_back({to_ticks(cost->forward_seconds), to_ticks(cost->backward_seconds()), to_ticks(cost->input_gradient_seconds), to_ticks(cost->weight_gradient_seconds)});
    update = std::max(update, schedule.shape.chunks * cost->update_seconds);
    made.stages.push_back(*cost);
    from = made.shape.ends[position];
  }
  besides += update;
  if (to_seconds(least_makespan(schedule, loads, ticks)) + besides >= most_seconds) return std::nullopt;
  const Result<PipelineTimeline> times = timeline(schedule, ticks);
  if (!times) return std::nullopt;
  made.step_seconds = to_seconds(times->makespan) + besides;
  return made.step_seconds < most_seconds ? std::optional(std::move(made)) : std::nullopt;
}

double StageLine::least_bytes(std::int64_t devices, double in_flight) const {
  double least = std::numeric_limits<double>::infinity();
  const auto known = ways_of_.find(devices);
  if (known == ways_of_.end()) return least;
  for (const std::size_t way : known->second) least = std::min(least, bytes_of(sum(ways_[way], 0, size()), in_flight));
  return least;
}

double StageLine::priced_seconds(std::size_t mesh, double price, double in_flight) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    if (ways_[way].mesh != mesh) continue;
    const double bytes = bytes_of(sum(ways_[way], 0, size()), in_flight);
    least = std::min(least, stage_of(way, mesh, ways_[way].before.back(), BackwardIs::whole, bytes).step_seconds(microbatches_) + price * bytes);
  }
  return least;
}

double StageLine::slowest_seconds(std::int64_t devices) const {
  double most = 0;
  const auto known = ways_of_.find(devices);
  if (known == ways_of_.end()) return most;
  for (const std::size_t way : known->second) most = std::max(most, stage_of(way, ways_[way].mesh, ways_[way].before.back(), BackwardIs::in_parts, 0).step_seconds(microbatches_));
  return most;
}

std::optional<LineCut> StageLine::cut(const PipelineSchedule& schedule, const std::vector<std::int64_t>& devices, double bytes, double hop_seconds) const {
  if (devices.size() > size()) return std::nullopt;
  const double part = bytes / schedule.shape.chunks;
  const std::vector<PositionLoad> loads = loads_by_position(schedule);
  double least = 0, most = 0;
  for (const std::int64_t each : devices) most = std::max(most, slowest_seconds(each));
  std::optional<std::vector<std::size_t>> ends = fill(devices, loads, part, most);
  if (!ends) return std::nullopt;
  for (int i = 0; i < kHalvingsOfPace; ++i) {
    const double middle = least + (most - least) / 2;
    std::optional<std::vector<std::size_t>> found = fill(devices, loads, part, middle);
    (found ? most : least) = middle;
    if (found) ends = std::move(found);
  }
  return estimate(schedule, {std::move(*ends), devices}, bytes, hop_seconds);
}

// A dynamic program over positions and devices, of one pace after the other: from where the furthest unit is that positions can reach with the devices before. What a stage takes does not depend on the pace, and is
// looked up.
class StageLine::Free {
 public:
  Free(const StageLine& line, std::vector<PositionLoad> loads, std::span<const DeviceRange> ranges, std::int64_t devices, double bytes)
      : line_(line), loads_(std::move(loads)), ranges_(ranges), devices_(devices), bytes_(bytes) {}

  std::optional<LineShape> within(double longest) {
    std::vector<std::map<std::int64_t, Reached>> reached(loads_.size() + 1);  // by position and the devices before it
    reached.front()[0] = {};
    for (std::size_t position = 0; position < loads_.size(); ++position) {
      for (const DeviceRange& range : ranges_) {
        const auto from = reached[position].find(range.first);
        if (from == reached[position].end()) continue;
        const std::size_t end = furthest(position, from->second.end, range.count, longest);
        if (end == from->second.end) continue;
        Reached& to = reached[position + 1][range.first + range.count];
        if (end > to.end) to = {end, range.count};
      }
    }
    const auto last = reached.back().find(devices_);
    if (last == reached.back().end() || last->second.end != line_.size()) return std::nullopt;
    LineShape shape;
    std::int64_t before = devices_;
    for (std::size_t position = loads_.size(); position > 0; --position) {
      const Reached& here = reached[position].at(before);
      shape.ends.insert(shape.ends.begin(), here.end);
      shape.devices.insert(shape.devices.begin(), here.devices);
      before -= here.devices;
    }
    return shape;
  }

 private:
  struct Reached {
    std::size_t end = 0;
    std::int64_t devices = 0;  // of the position that ends there
  };

  // From there; `from` itself where not even one unit fits.
  std::size_t furthest(std::size_t position, std::size_t from, std::int64_t devices, double longest) {
    const std::size_t most = line_.size() - (loads_.size() - 1 - position);  // the others take one at least
    std::size_t least = from, above = most + 1;
    while (above - least > 1) {
      const std::size_t middle = least + (above - least) / 2;
      (seconds(position, from, middle, devices) <= longest ? least : above) = middle;
    }
    return least;
  }

  double seconds(std::size_t position, std::size_t from, std::size_t to, std::int64_t devices) {
    const auto [known, is_new] = seconds_[{position, devices}].try_emplace(from * (line_.size() + 1) + to, 0);
    if (is_new) {
      const std::optional<StageCost> cost = line_.stage(from, to, devices, loads_[position], bytes_);
      known->second = cost ? cost->step_seconds(line_.microbatches_) : std::numeric_limits<double>::infinity();
    }
    return known->second;
  }

  const StageLine& line_;
  const std::vector<PositionLoad> loads_;
  const std::span<const DeviceRange> ranges_;
  const std::int64_t devices_;
  const double bytes_;
  std::map<std::pair<std::size_t, std::int64_t>, std::unordered_map<std::size_t, double>> seconds_;  // of a step, by position, devices, and units
};

std::optional<LineShape> StageLine::cut_freely(const PipelineSchedule& schedule, std::span<const DeviceRange> ranges, std::int64_t devices, double bytes, double longest) const {
  std::vector<PositionLoad> loads = loads_by_position(schedule);
  if (loads.size() > size()) return std::nullopt;
  double most = 0;
  for (const DeviceRange& range : ranges) most = std::max(most, slowest_seconds(range.count));
  longest = std::min(longest, most);
  Free free(*this, std::move(loads), ranges, devices, bytes);
  std::optional<LineShape> shape = free.within(longest);
  double least = 0;
  for (int i = 0; shape && i < kHalvingsOfFreePace; ++i) {
    const double middle = least + (longest - least) / 2;
    std::optional<LineShape> found = free.within(middle);
    (found ? longest : least) = middle;
    if (found) shape = std::move(found);
  }
  return shape;
}

LineCut StageLine::moved(LineCut cut, const PipelineSchedule& schedule, double bytes, double hop_seconds) const {
  const std::vector<PositionLoad> loads = loads_by_position(schedule);
  for (int move = 0; move < kMostUnitMoves; ++move) {
    std::optional<LineCut> better;
    const std::vector<std::size_t>& ends = cut.shape.ends;
    for (std::size_t border = 0; border + 1 < ends.size(); ++border) {
      for (const int by : {-1, 1}) {
        LineShape shape = cut.shape;
        std::size_t& end = shape.ends[border];
        end += static_cast<std::size_t>(by);
        if (end <= (border == 0 ? 0 : ends[border - 1]) || end >= ends[border + 1]) continue;
        std::optional<LineCut> tried = estimate_below(kShorter * (better ? better->step_seconds : cut.step_seconds), schedule, loads, std::move(shape), bytes, hop_seconds);
        if (tried) better = std::move(tried);
      }
    }
    if (!better) break;
    cut = std::move(*better);
  }
  return cut;
}

}  // namespace meshwright
