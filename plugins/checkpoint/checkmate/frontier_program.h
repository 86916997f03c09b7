// Checkmate's integer program (Jain et al. 2020, arXiv 1910.02653, §4: equations 1 and 7 to 9) of a chain, taken as a
// graph: each stage has three nodes, a forward that makes its value alone, a forward that saves all that its backward
// reads (its value in it), and a backward. A reader of a value is content with either of the first two.
//
//   R of (phase, stage): x1 (makes the value alone), xs (saves all); S of the same: a (the stage's input is held by
//   itself as the phase begins), v (what it saves is held). All are 0 or 1.
//
//   minimize  Σ forward_run_ticks · x1
//   x1_tk + xs_tk = 1 at a phase's frontier k; Σ_t xs_tk = 1; no frontier may be run before its phase  (eq. 1d to 1f)
//   v_(t+1)k = v_tk + xs_tk                                 what is saved is held until its backward
//   a_tk + x1_t(k-1) + v_(t+1)(k-1) ≤ 1                     a value is held or made, once
//   x1_tk + xs_tk ≤ a_tk + x1_t(k-1) + v_(t+1)(k-1)         what is read is there           (eq. 1b)
//   a_(t+1)k ≤ a_tk + x1_t(k-1)                             what is held was held or made   (eq. 1c)
//   U_tk + made + overhead ≤ budget, where U_t(k+1) = U_tk + made - freed                    (eq. 7 to 9)
//
// The paper's FREE_tik says where in a phase a value's last reader has run. On a chain one forward reads it, so it is
// free behind that step if the next phase does not hold it: a_tk + x1_t(k-1) - a_(t+1)k, and no product is linearised.
// U is put in for what it is, so there is no column for it, and none that is not whole. With columns for U, which are
// continuous, HiGHS 1.15.1 without its presolve said of 7 programs in 2400 that nothing fits, or that a schedule is
// best, where it was not so; without them of none (docs/decisions/043-chains.md).
//
// What the program leaves out no schedule regrets (rematerialization.h). The n forwards that save, and the backwards,
// run once in every schedule: their time is no part of the objective.
//
// Where an input takes no bytes, it is held at no price, so nobody runs the stages before it for those behind it: such
// inputs cut the chain into parts, and in a phase only forwards of its frontier's part run. What another part holds
// then is the same from phase to phase, one column of each kind for all of them. So a chain of many short parts has a
// program that is linear in them.
//
// Bytes are counted in units of the greatest common divisor of all sizes, and ticks in that of all forwards' times.
// Where there are more than 2^16 of them, a unit is a power of two times that, and numbers are no longer whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linear_program.h"
#include "meshwright/checkpoint.h"
#include "rematerialization.h"

namespace meshwright::checkmate {

// By stage, the first one of its part.
std::vector<std::size_t> parts_of(const Chain& chain);

// How many columns the program has; 4 n (n + 1) of n stages where all are one part.
std::int64_t count_columns(const Chain& chain);

class FrontierProgram {
 public:
  static constexpr std::uint32_t kNoColumn = static_cast<std::uint32_t>(-1);

  // The budget of a valid chain is at least its input, and less than kNoBudget.
  static FrontierProgram within(const Chain& chain, std::int64_t budget);
  // The objective is the peak instead.
  static FrontierProgram of_least_peak(const Chain& chain);

  [[nodiscard]] const LinearProgram& program() const { return program_; }
  // The least ticks of forwards that run again, or bytes of a peak, that a schedule can have whose objective is
  // `objective` or more: multiples of the divisor.
  [[nodiscard]] TickSum at_least(double objective) const;

  // What values of the columns decide: S at `threshold` and above is held, and a stage saves in the first phase in
  // which so much of it has run. Integer solutions mean the same at any threshold between 0 and 1; those of the
  // relaxation are rounded so (the paper's §5.2).
  [[nodiscard]] Rematerialization decided_by(std::span<const double> values, double threshold) const;

 private:
  struct Step {  // the columns of a phase and a stage
    std::uint32_t makes_alone, saves, holds_input, holds_saved;  // kNoColumn: not at all
  };

  struct Scale {
    std::int64_t divisor = 1;  // the greatest common one
    double per_unit = 1;       // the divisor, times a power of two
  };

  explicit FrontierProgram(const Chain& chain);
  // A unit that leaves at most 2^16 of `most`.
  static Scale scale_of(std::int64_t divisor, std::int64_t most);

  std::uint32_t add_column(double cost, double upper, bool integer);
  void add_columns();
  // Of a stage in the phases of parts behind its own.
  Step add_waiting_step(std::size_t stage);
  // Whether forwards of the stage run in the phase.
  [[nodiscard]] bool runs_in(std::size_t phase, std::size_t stage) const { return part_[stage] == part_[phases_[phase].forwards - 1]; }
  void add_runs();
  void add_holds();
  // With a column for the peak, or a budget.
  void add_memory(double budget, const std::uint32_t* peak);
  void add_row(std::vector<LinearEntry> entries, Relation relation, double right);

  [[nodiscard]] double units(std::int64_t bytes) const { return static_cast<double>(bytes) / bytes_.per_unit; }
  // What makes the stage's input by itself in the phase: held as it begins, or made in it.
  void append_alone(std::vector<LinearEntry>& entries, std::size_t phase, std::size_t stage, double factor) const;
  // What is saved of a stage once its step in the phase is over.
  void append_saved(std::vector<LinearEntry>& entries, std::size_t phase, std::size_t stage, double factor) const;

  const Chain& chain_;
  const std::vector<Phase> phases_;
  const std::vector<std::size_t> part_;   // by stage
  std::vector<std::vector<Step>> steps_;  // by phase and stage
  LinearProgram program_;
  Scale ticks_, bytes_;
  bool least_peak_ = false;
};

}  // namespace meshwright::checkmate
