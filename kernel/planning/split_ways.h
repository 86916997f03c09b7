// Ways to split a model over one mesh and to run parts of it again, found by an exact search each: by time alone, and with prices on bytes, of what a device has all the time and of what each
// microbatch in flight keeps (SEARCH: pairs of multipliers). What a unit of each kind takes in them is measured (unit_costs.h); stages are made of such units.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fitted_search.h"
#include "meshwright/cluster.h"
#include "meshwright/config.h"
#include "pins.h"
#include "step_floor.h"
#include "unit_costs.h"

namespace meshwright {

// All that it refers to outlives what is made of it.
struct SplitRequest {
  PlanningContext context;  // of the short model, in an order that has two microbatches in flight where there are several
  const ModelUnits& units;  // of the short model
  const Config& search;
  const std::vector<Pin>& pins;
  const FittedSolver& solver;
  const FittedSolver::Lower& lower;
  bool prices = true;  // false: the solver reads the model, and knows of no price
};

struct SplitWay {
  std::vector<UnitCost> by_kind;
  std::vector<std::uint32_t> layouts = {};      // by variable of the short model
  std::vector<std::string> recomputed = {};     // ProblemInput::recomputed
};

class SplitWays {
 public:
  // With the fastest way of all; nothing where no strategy is allowed on this mesh, or its plan has no program. `batch_first`: the first axis only ever shards the batch. Errors: bad_input; those of build_problem
  // but infeasible, of solving and lowering.
  static Result<std::optional<SplitWays>> make(const SplitRequest& request, const Cluster& stage, const std::vector<std::int64_t>& shape, bool batch_first);
  SplitWays(SplitWays&&) noexcept;
  ~SplitWays();

  [[nodiscard]] const Mesh& mesh() const;
  [[nodiscard]] const std::vector<SplitWay>& ways() const;    // the fastest first

  // Adds the way whose step, with so many seconds for a byte on a device and `in_flight` microbatches' of what is saved, costs least; true if it is not known yet. None where there are no prices. Errors: as above.
  Result<bool> add(double seconds_per_byte, double in_flight);
  // Of a byte, so that all that the fastest way holds costs as much as its time.
  [[nodiscard]] double usual_price() const;

  // What the ways are choices of.
  [[nodiscard]] const Problem& problem() const;
  [[nodiscard]] const StrategyFilter& filter() const;
  // Prices on this mesh, and strategies of ops, for problems of parts of the whole model.
  [[nodiscard]] const ConversionSearch& prices() const;
  [[nodiscard]] KnownStrategies& strategies() const;

  // By node of the short model (step_floor.h).
  void take_least(std::vector<LeastComputing>& least) const;

 private:
  class Impl;
  explicit SplitWays(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshwright
