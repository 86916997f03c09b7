#include "frontier_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace meshwright::checkmate {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostUnits = std::int64_t{1} << 16;

}  // namespace

std::vector<std::size_t> parts_of(const Chain& chain) {
  std::vector<std::size_t> part(chain.stages.size(), 0);
  for (std::size_t stage = 1; stage < part.size(); ++stage) {
    part[stage] = chain.stages[stage].input_bytes == 0 ? stage : part[stage - 1];
  }
  return part;
}

std::int64_t count_columns(const Chain& chain) {
  const std::vector<std::size_t> part = parts_of(chain);
  std::int64_t columns = 0;
  for (std::size_t stage = 0; stage < part.size(); ++stage) {
    columns += 8 * static_cast<std::int64_t>(stage + 1 - part[stage]);  // a phase of its forward, one of its backward
    columns += part[stage] == part.back() ? 0 : 2;
  }
  return columns;
}

FrontierProgram::Scale FrontierProgram::scale_of(std::int64_t divisor, std::int64_t most) {
  if (divisor == 0) return {};
  auto unit = static_cast<double>(divisor);
  for (std::int64_t left = most / divisor; left > kMostUnits; left /= 2) unit *= 2;
  return {divisor, unit};
}

FrontierProgram::FrontierProgram(const Chain& chain) : chain_(chain), phases_(phases_of(chain.stages.size())), part_(parts_of(chain)) {
  std::int64_t tick_divisor = 0, most_ticks = 0, byte_divisor = 0, all_bytes = 0;
  for (const ChainStage& stage : chain.stages) {
    tick_divisor = std::gcd(tick_divisor, forward_run_ticks(stage));
    most_ticks = std::max(most_ticks, forward_run_ticks(stage));
    for (const std::int64_t bytes : {stage.input_bytes, stage.input_gradient_bytes, stage.saved_bytes,
                                     stage.forward_overhead_bytes, stage.backward_overhead_bytes}) {
      byte_divisor = std::gcd(byte_divisor, bytes);
      all_bytes += bytes;
    }
  }
  ticks_ = scale_of(tick_divisor, most_ticks);
  bytes_ = scale_of(byte_divisor, all_bytes);
  add_columns();
  add_runs();
  add_holds();
}

FrontierProgram FrontierProgram::within(const Chain& chain, std::int64_t budget) {
  FrontierProgram made(chain);
  made.add_memory(made.units(budget / made.bytes_.divisor * made.bytes_.divisor), nullptr);
  return made;
}

FrontierProgram FrontierProgram::of_least_peak(const Chain& chain) {
  FrontierProgram made(chain);
  made.least_peak_ = true;
  for (LinearColumn& column : made.program_.columns) column.cost = 0;
  const std::uint32_t peak = made.add_column(1, kUnbounded, false);
  made.add_memory(0, &peak);
  return made;
}

TickSum FrontierProgram::at_least(double objective) const {
  const auto& [divisor, per_unit] = least_peak_ ? bytes_ : ticks_;
  return TickSum{divisor} * static_cast<TickSum>(std::ceil(objective * (per_unit / static_cast<double>(divisor))));
}

std::uint32_t FrontierProgram::add_column(double cost, double upper, bool integer) {
  program_.columns.push_back({cost, upper, integer});
  return static_cast<std::uint32_t>(program_.columns.size() - 1);
}

FrontierProgram::Step FrontierProgram::add_waiting_step(std::size_t stage) {
  const std::uint32_t input = add_column(0, stage == 0 ? 0 : 1, true);
  return {kNoColumn, kNoColumn, input, add_column(0, 1, true)};
}

void FrontierProgram::add_columns() {
  std::vector<std::optional<Step>> waiting(chain_.stages.size());
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    std::vector<Step>& steps = steps_.emplace_back();
    for (std::size_t stage = 0; stage < phases_[phase].forwards; ++stage) {
      if (!runs_in(phase, stage)) {
        if (!waiting[stage]) waiting[stage] = add_waiting_step(stage);
        steps.push_back(*waiting[stage]);
        continue;
      }
      const double ticks = static_cast<double>(forward_run_ticks(chain_.stages[stage])) / ticks_.per_unit;
      const bool is_new = phase == stage;  // nothing of it can be held before its forward's phase
      const bool is_last = phases_[phase].has_backward && stage + 1 == phases_[phase].forwards;
      Step& step = steps.emplace_back();
      // Nobody reads what the last stage makes, nor a value whose reader's backward has run.
      step.makes_alone = add_column(ticks, stage + 1 == chain_.stages.size() || is_last ? 0 : 1, true);
      step.saves = add_column(0, 1, true);
      step.holds_input = add_column(0, stage == 0 ? 0 : 1, true);
      step.holds_saved = add_column(0, is_new ? 0 : 1, true);
    }
  }
}

void FrontierProgram::add_row(std::vector<LinearEntry> entries, Relation relation, double right) {
  std::sort(entries.begin(), entries.end(),
            [](const LinearEntry& a, const LinearEntry& b) { return a.column < b.column; });
  // Each column stands once in a row, if at all.
  std::vector<LinearEntry> joined;
  for (const LinearEntry& entry : entries) {
    if (entry.column == kNoColumn) break;
    if (!joined.empty() && joined.back().column == entry.column) {
      joined.back().factor += entry.factor;
    } else {
      joined.push_back(entry);
    }
  }
  std::erase_if(joined, [](const LinearEntry& entry) { return entry.factor == 0; });
  program_.rows.push_back({std::move(joined), relation, right});
}

void FrontierProgram::append_alone(std::vector<LinearEntry>& entries, std::size_t phase, std::size_t stage,
                                   double factor) const {
  if (stage < phases_[phase].forwards) entries.push_back({steps_[phase][stage].holds_input, factor});
  entries.push_back({steps_[phase][stage - 1].makes_alone, factor});
}

void FrontierProgram::append_saved(std::vector<LinearEntry>& entries, std::size_t phase, std::size_t stage,
                                   double factor) const {
  entries.push_back({steps_[phase][stage].holds_saved, factor});
  entries.push_back({steps_[phase][stage].saves, factor});
}

void FrontierProgram::add_runs() {
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    const std::size_t frontier = phases_[phase].forwards - 1;
    for (std::size_t stage = part_[frontier]; stage <= frontier; ++stage) {
      const Step& step = steps_[phase][stage];
      if (stage == 0) continue;  // the chain's input is there
      std::vector<LinearEntry> there;
      append_alone(there, phase, stage, 1);
      append_saved(there, phase, stage - 1, 1);
      add_row(there, Relation::at_most, 1);
      std::vector<LinearEntry> reads;
      append_alone(reads, phase, stage, -1);
      append_saved(reads, phase, stage - 1, -1);
      if (stage == frontier && phases_[phase].has_backward) {
        add_row(reads, Relation::at_most, -1);
        continue;
      }
      reads.push_back({step.makes_alone, 1});
      reads.push_back({step.saves, 1});
      add_row(reads, Relation::at_most, 0);
    }
    const Step& last = steps_[phase][frontier];
    if (phases_[phase].has_backward) {
      add_row({{last.holds_saved, 1}, {last.saves, 1}}, Relation::equal, 1);
    } else {
      add_row({{last.makes_alone, 1}, {last.saves, 1}}, Relation::equal, 1);
    }
  }
}

void FrontierProgram::add_holds() {
  for (std::size_t phase = 0; phase + 1 < phases_.size(); ++phase) {
    const std::size_t next_forwards = phases_[phase + 1].forwards;
    for (std::size_t stage = 0; stage < next_forwards; ++stage) {
      if (!runs_in(phase, stage) && !runs_in(phase + 1, stage)) continue;  // the same columns
      if (stage < phases_[phase].forwards) {
        std::vector<LinearEntry> saved = {{steps_[phase + 1][stage].holds_saved, -1}};
        append_saved(saved, phase, stage, 1);
        add_row(saved, Relation::equal, 0);
      }
      if (stage == 0) continue;
      std::vector<LinearEntry> held = {{steps_[phase + 1][stage].holds_input, 1}};
      append_alone(held, phase, stage, -1);
      add_row(held, Relation::at_most, 0);
    }
  }
}

void FrontierProgram::add_memory(double budget, const std::uint32_t* peak) {
  const auto add_limit = [&](std::vector<LinearEntry> entries, std::int64_t bytes) {
    if (peak != nullptr) entries.push_back({*peak, -1});
    add_row(std::move(entries), Relation::at_most, budget - units(bytes));
  };
  const std::vector<ChainStage>& stages = chain_.stages;
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    const std::size_t forwards = phases_[phase].forwards;
    const bool has_backward = phases_[phase].has_backward;
    const std::int64_t gradient = has_backward && forwards < stages.size() ? stages[forwards].input_gradient_bytes : 0;
    std::vector<LinearEntry> held;  // U, but for what is held all the time
    for (std::size_t stage = 0; stage < forwards; ++stage) {
      held.push_back({steps_[phase][stage].holds_input, units(stages[stage].input_bytes)});
      held.push_back({steps_[phase][stage].holds_saved, units(stages[stage].saved_bytes)});
    }
    const std::int64_t always = stages[0].input_bytes + gradient;
    for (std::size_t stage = 0; stage < forwards; ++stage) {
      const ChainStage& here = stages[stage];
      const Step& step = steps_[phase][stage];
      const std::int64_t output = stage + 1 < stages.size() ? stages[stage + 1].input_bytes : 0;
      held.push_back({step.makes_alone, units(output)});
      held.push_back({step.saves, units(here.saved_bytes)});
      if (runs_in(phase, stage)) {
        std::vector<LinearEntry> while_it_runs = held;
        while_it_runs.push_back({step.makes_alone, units(here.forward_overhead_bytes)});
        while_it_runs.push_back({step.saves, units(here.forward_overhead_bytes)});
        add_limit(std::move(while_it_runs), always);
      }
      const bool backward_reads = has_backward && stage + 1 == forwards;
      if (stage == 0 || backward_reads) continue;
      append_alone(held, phase, stage, -units(here.input_bytes));
      if (phase + 1 < phases_.size() && stage < phases_[phase + 1].forwards) {
        held.push_back({steps_[phase + 1][stage].holds_input, units(here.input_bytes)});
      }
    }
    if (!has_backward) continue;
    const ChainStage& last = stages[forwards - 1];
    add_limit(held, always + last.input_gradient_bytes + last.backward_overhead_bytes);
  }
}

Rematerialization FrontierProgram::decided_by(std::span<const double> values, double threshold) const {
  Rematerialization decided = hold_nothing(chain_.stages.size());
  std::vector<bool> is_saved(chain_.stages.size(), false);
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    for (std::size_t stage = 0; stage < phases_[phase].forwards; ++stage) {
      const Step& step = steps_[phase][stage];
      decided.holds_input[phase][stage] = values[step.holds_input] >= threshold;
      const double saves = step.saves == kNoColumn ? 0 : values[step.saves];
      if (is_saved[stage] || values[step.holds_saved] + saves < threshold) continue;
      is_saved[stage] = true;
      decided.saving_phase[stage] = std::min(phase, decided.saving_phase[stage]);
    }
  }
  return decided;
}

}  // namespace meshwright::checkmate
