// How sure a plan is: the second best distinct plan, and by how much each figure of the cost model would have to be wrong
// for that one to be the faster of the two. Found by planning/break_even.h; a plan keeps it (plan.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// A figure that the cost model assumes, or several that are scaled together.
enum class CostCoefficient : std::uint8_t {
  link_bandwidth,    // of one level of the cluster, with the curves that were measured on it
  link_latency,      // of one level of the cluster
  product_rate,      // what matrix products reach: their efficiency, or their curves
  attention_rate,    // what fused attention reaches: the efficiency of the kernel that is trained with
  memory_bandwidth,  // what the device's memory reaches: its efficiency, or its curve
  host_time,         // that the host takes to issue a kernel, and a collective
};

struct BreakEven {
  CostCoefficient coefficient = CostCoefficient::link_bandwidth;
  std::string level;  // of a link: which one; else ""
  // The part of each simulated step that the coefficient accounts for, seconds: a hundred times what the step grows by if all
  // that the coefficient prices takes 1 % longer. What overlaps with something longer has no part.
  double part_seconds = 0;
  double runner_up_part_seconds = 0;
  // The factor nearest to 1 at which the runner-up is faster: of a bandwidth or a rate so many times what is assumed, of a
  // latency or a time likewise. Nothing: at none that was tried (planning/break_even.h).
  std::optional<double> factor;
  bool operator==(const BreakEven&) const = default;
};

struct RunnerUp {
  std::string mesh;  // "2x4"
  double objective_seconds = 0;
  double step_seconds = 0;               // simulated
  std::vector<std::string> differences;  // what it does otherwise, on the same mesh (planning/distinct_plans.h)
  std::vector<BreakEven> break_evens;    // one for each coefficient that the cluster states
  bool operator==(const RunnerUp&) const = default;
};

}  // namespace meshwright
