// Where a model is cut into pipeline stages when only their number is given: the graph's order is cut into runs that take about as long, by the
// clock of one device, at places where little crosses. (Which number, and which devices, a partitioner chooses: plugins of kind "inter".)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "meshwright/planning_context.h"
#include "meshwright/result.h"
#include "pins.h"

namespace meshwright {

// "transformer.h.6" = "stage 1": what the module makes is made in that stage.
[[nodiscard]] bool is_of_stage(const Pin& pin);

// By node: its forward and its backward by the clock of one device. Errors: those of serial_plan.
Result<std::vector<double>> seconds_on_one_device(const PlanningContext& context);

struct BalanceWish {
  std::uint32_t stages = 1;
  std::vector<double> speeds = {};      // by stage: how many times as fast as one device
  double seconds_per_byte = 0;          // of what a stage sends to another one
  std::span<const Pin> pins = {};       // those of stages are met
  std::vector<double> seconds = {};     // seconds_on_one_device
  std::vector<double> weights = {};     // by node: how many times longer than that it is to count
};

struct Balance {
  std::vector<std::uint32_t> stage_of;  // by node; of nodes that depend on no parameter 0
  std::vector<double> seconds;          // by stage: of its nodes, as they count
};

// Of the cuts whose longest stage takes at most a twentieth more than that of the best, one across which the least
// goes. Deterministic. Errors: bad_input if the model has too few places to cut (with their number), or for a pin of a module that there is not, or that
// contradicts another one.
Result<Balance> balanced_stages(const PlanningContext& context, const BalanceWish& wish);

}  // namespace meshwright
