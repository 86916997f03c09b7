// MAP's integer program (equation 1, marginal_program.h) with any engine for mixed-integer linear programs. Engines
// compute in doubles, so nothing that they claim is taken at its word: choices are evaluated in ticks, and bounds are
// lowered by more than the engine's tolerances. `optimal` is said only where the bound that is left rounds up to the
// choice's cost; on costs above about 10^8 ticks an engine's proof may thus read as `bounded` with a gap of a few
// ticks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "linear_program.h"
#include "meshwright/plugin.h"
#include "meshwright/solver.h"

namespace meshwright {

struct EngineLimits {
  double seconds = 0;                      // a last resort
  std::int64_t work = 0;                   // elementary steps; engines that can count honour it, as well as they can
  std::optional<double> good_enough = {};  // an objective below which there is nothing to look for
};

struct EngineAnswer {
  enum class Status { optimal, infeasible, stopped, failed } status = Status::failed;
  std::vector<double> values;  // of the best solution found; empty if none was
  double objective = 0;        // its value
  bool cut_off_by_clock = false;
};

class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual std::string name() const = 0;  // as its users write it: "lp_solve"
  // What a bound gives up, of its own value and in units of the objective, for the engine's tolerances.
  [[nodiscard]] virtual double relative_margin() const = 0;
  [[nodiscard]] virtual double absolute_margin() const = 0;
  // With `integer`, columns marked so are; else the relaxation is solved.
  [[nodiscard]] virtual EngineAnswer run(const LinearProgram& program, bool integer,
                                         const EngineLimits& limits) const = 0;
};

struct IntegerOptions {
  std::int64_t max_columns = 500'000;  // the largest program that the engine is given
  bool messages = true;                // false: the engine is given all that the reduction leaves
};

// One Assignment for each budget, as IntraSolver::solve wants them. Before the engine, and so that it has less to do,
// messages bound the cost and strategies that no choice as good as a known one has are dropped (wide_search.h). If more
// columns than it may have are left, the answer is that of messages and their search.
std::vector<Assignment> solve_integer_program(const Engine& engine, const StrategySpace& space,
                                              std::span<const std::int64_t> budgets, const SearchLimits& limits,
                                              const IntegerOptions& use);

// The keys of such a solver's configuration, and what they say.
inline constexpr meshwright_config_key_v1 kIntegerSchema[] = {
    {"max_columns", "integer", "columns", "500_000",
     "the largest program that is given to the engine; beyond it the answer is that of messages and a local search, "
     "with a "
     "bound"},
    {"messages", "boolean", "", "true",
     "messages bound the cost first, and strategies that the bound excludes are left out of the program; false: the "
     "engine "
     "is given all of it"},
};
inline IntegerOptions integer_options(const Config& config) {
  return {config.integer("max_columns"), config.boolean("messages")};
}

}  // namespace meshwright
