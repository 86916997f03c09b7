// A schedule on devices, with the best cut of a line of units that is known for it (stage_line.h), and the looking for ways that hold less where memory binds.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "joint_line.h"
#include "meshwright/result.h"
#include "meshwright/schedule.h"
#include "stage_line.h"

namespace meshwright {

struct FoundCut {
  JointLine* line = nullptr;  // outlives it
  PipelineSchedule schedule;
  std::vector<std::int64_t> devices;  // by position
  std::vector<PositionLoad> loads;    // by position
  double hop_seconds = 0;
  double bytes = 0;  // of a device's memory that are counted on
  LineCut cut = {};
  bool settled = false;  // bytes count in the cut
  bool refined = false;
  std::optional<StageLine> corrected = std::nullopt;  // by plans

  FoundCut(JointLine* of, PipelineSchedule by, std::vector<std::int64_t> on, double hop, double most_bytes);

  [[nodiscard]] const StageLine& units() const { return corrected ? *corrected : line->line(); }
  [[nodiscard]] std::optional<LineCut> cut_within(double most_bytes) const { return line->line().cut(schedule, devices, most_bytes, hop_seconds); }
  // Units are moved as long as it becomes shorter.
  [[nodiscard]] LineCut moved(LineCut from) const { return units().moved(std::move(from), schedule, bytes, hop_seconds); }

  // The best cut whose stages fit, of all ways that are known; where none fits, ways with ever higher prices on bytes are looked for until one does, and in the end on meshes that are far from the fastest. False where none that was found holds so little, and the cut is as it
  // was. Errors: those of solving and lowering.
  Result<bool> settle();

  // Of one that is settled, with ways that have come since.
  void cut_again();
  // Of one that is settled: ways by what memory is worth in its stages, as long as the cut becomes shorter and takes no more than `worth_seconds`; then units are moved. Errors: those of solving and lowering.
  Status refine(double worth_seconds);

 private:
  [[nodiscard]] Result<bool> add_ways_by_prices() const;
  [[nodiscard]] Result<bool> add_far_meshes() const;
};

// What is known of one that was tried, for others on the same devices in as many microbatches.
struct TriedSchedule {
  ScheduleShape shape;
  std::vector<std::uint32_t> positions;
  std::vector<PositionLoad> loads;
  double free_seconds = 0;        // where memory is no matter
  std::optional<double> seconds;  // nothing: no cut fits

  // Anywhere, with its positions on the same devices.
  [[nodiscard]] bool holds_no_more_than(const FoundCut& other) const;
};

}  // namespace meshwright
