// Activation checkpointing of a chain: which forwards keep what, and which run again, so that a training step fits a
// budget of memory and takes the least time. The model is that of rotor (Beaumont et al. 2019, "Optimal checkpointing
// for heterogeneous chains") with the communication that MAP adds (§5.2.1, Tables 1 and 2); the solvers are plugins of
// kind "checkpoint".
//
// A chain is a list of stages. Stage l reads the value a^{l-1} that the stage before it makes, and makes a^l; its
// backward reads the gradient δ^l of a^l, all that a forward kept of the stage (ā^l, with a^l in it) and a^{l-1}, and
// makes δ^{l-1}. The last stage holds the loss, so nothing leaves it, and no gradient enters it.
//
// A schedule is a list of operations, one after the other; nothing overlaps. Communication is part of the run that it
// belongs to, so a forward that runs again pays for its communication again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/solve_status.h"
#include "meshwright/ticks.h"

namespace meshwright {

// Ticks are per run, bytes per device. Nothing is negative.
struct ChainStage {
  Ticks forward_ticks = 0;                 // u_f
  Ticks backward_ticks = 0;                // u_b
  Ticks forward_communication_ticks = 0;   // u_fcomm
  Ticks backward_communication_ticks = 0;  // u_bcomm
  std::int64_t input_bytes = 0;            // ω_a of a^{l-1}, the value that the stage reads
  std::int64_t input_gradient_bytes = 0;   // ω_δ of δ^{l-1}, which its backward makes; 0 where nobody wants it
  // ω_ā: all that a forward can keep for its backward. It holds a^l too, so it is no less than the next stage's
  // input_bytes.
  std::int64_t saved_bytes = 0;
  // o_f + o_fcomm and o_b + o_bcomm: held only while the forward or the backward runs, beside what it reads and makes.
  std::int64_t forward_overhead_bytes = 0;
  std::int64_t backward_overhead_bytes = 0;

  friend bool operator==(const ChainStage&, const ChainStage&) = default;
};

struct Chain {
  std::vector<ChainStage> stages;  // in the order of their forwards
};

inline Ticks forward_run_ticks(const ChainStage& stage) {
  return stage.forward_ticks + stage.forward_communication_ticks;
}
inline Ticks backward_run_ticks(const ChainStage& stage) {
  return stage.backward_ticks + stage.backward_communication_ticks;
}

// The time of a step in which no forward runs twice: no schedule takes less.
MESHWRIGHT_API TickSum ticks_without_recomputing(const Chain& chain);

// Checks what every function below expects: at least one stage, nothing negative, saved_bytes that hold the stage's
// output, all bytes together and all ticks together below 2^61. Error: bad_input, with the stage and the field.
MESHWRIGHT_API Status validate(const Chain& chain);

enum class ChainOperationKind : std::uint8_t {
  forward_keep_all,      // F_all: keeps its input, and saves ā^l
  forward_keep_input,    // F_ck: keeps its input, and makes a^l alone
  forward_keep_nothing,  // F_∅: makes a^l alone, and lets its input go, which must be held by itself
  backward,              // B: lets ā^l, δ^l and its input go, unless the input is part of what stage l-1 saved
  drop_saved,            // lets go of ā^l but for a^l
  drop_input,            // lets go of a^{l-1}, which must be held by itself
};

// "forward_keep_all" ...
MESHWRIGHT_API std::string_view name(ChainOperationKind kind);

struct ChainOperation {
  ChainOperationKind kind = ChainOperationKind::forward_keep_all;
  std::uint32_t stage = 0;

  friend bool operator==(const ChainOperation&, const ChainOperation&) = default;
};

using ChainSchedule = std::vector<ChainOperation>;

// Every forward once, keeping all, then every backward: the schedule of least time and, among those without
// recomputing, of least memory.
MESHWRIGHT_API ChainSchedule keep_everything(const Chain& chain);

struct ChainReplay {
  TickSum ticks = 0;
  std::int64_t peak_bytes = 0;
  std::size_t peak_operation = 0;  // the first operation of the schedule that reaches the peak
};

// Executes `schedule` on a valid `chain`. At the beginning the chain's input is held. While an operation runs, memory
// holds what was held before, what the operation makes, and its overhead. A value that is both held by itself and saved
// is held once, behind the operation that saved it.
// Errors: bad_input, with the operation's place and kind and the stage, if a stage does not exist, a value that is read
// or dropped is not held, a forward makes what is held or what no backward waits for, a backward is not the next one,
// or the schedule ends before the last backward.
MESHWRIGHT_API Result<ChainReplay> replay(const Chain& chain, std::span<const ChainOperation> schedule);

struct CheckpointAnswer {
  // optimal: no schedule of the family that the solver searches takes less time within the budget (the solver says
  // which family); heuristic: nothing is claimed; infeasible: the solver has no schedule within the budget. Never
  // bounded.
  SolveStatus status = SolveStatus::heuristic;
  ChainSchedule schedule;       // empty if infeasible
  TickSum ticks = 0;            // what the solver claims of the schedule; 0 if infeasible
  std::int64_t peak_bytes = 0;  // the same
  // If infeasible: a budget, above the one that was given, that the solver does meet. The solver says whether it is the
  // least.
  std::int64_t least_bytes = 0;
  std::string method;  // how the answer came about, in a few words: "dynamic program, 500 slots of 1048576 bytes"
};

// The answer that `schedule` is: replayed, optimal if nothing runs twice, else heuristic. Errors: those of replay.
MESHWRIGHT_API Result<CheckpointAnswer> answer_by(const Chain& chain, ChainSchedule schedule, std::string method);

// The answer of a solver that meets `least_bytes` and not the budget.
MESHWRIGHT_API CheckpointAnswer no_answer_below(std::int64_t least_bytes, std::string method);

class MESHWRIGHT_API CheckpointSolver {
 public:
  virtual ~CheckpointSolver();

  // One answer for each budget (bytes per device for the whole chain, its input included; kNoBudget for none), which
  // ascend. The chain and the budgets are validated before, and the answers behind: each schedule is replayed, and must
  // take the time and the peak that are claimed, and fit. So implementations may assume valid input with at least one
  // stage and one budget. They keep nothing and are deterministic. Errors: bad_input (the chain, the budgets),
  // plugin_failed (an answer), and the solver's own.
  Result<std::vector<CheckpointAnswer>> solve(const Chain& chain, std::span<const std::int64_t> budgets) const;

 private:
  virtual Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain,
                                                         std::span<const std::int64_t> budgets) const = 0;
};

}  // namespace meshwright
