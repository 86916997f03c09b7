#include "checkmate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontier_program.h"
#include "highs_engine.h"
#include "meshwright/plugin.h"
#include "rematerialization.h"

namespace meshwright {

namespace {

using checkmate::FrontierProgram;
using checkmate::Rematerialization;
using Clock = std::chrono::steady_clock;
using EngineStatus = EngineAnswer::Status;

constexpr double kRounded = 0.5;
constexpr std::array kWhole = {kRounded};
constexpr std::array kThresholds = {0.25, kRounded, 0.75};

// Every `length`-th value is held from its first run on, and a segment between two of them saves when the backward
// reaches it (`at_once`), or each of its stages by itself.
Rematerialization in_segments(std::size_t stages, std::size_t length, bool at_once) {
  Rematerialization decided = checkmate::hold_nothing(stages);
  for (std::size_t phase = 1; phase < decided.holds_input.size(); ++phase) {
    for (std::size_t stage = length; stage < stages; stage += length) {
      decided.holds_input[phase][stage] = phase >= stage;
    }
  }
  if (!at_once) return decided;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t last = std::min(stages, (stage / length + 1) * length) - 1;
    decided.saving_phase[stage] = checkmate::backward_phase(stages, last);
  }
  return decided;
}

class CheckmateSearch {
 public:
  CheckmateSearch(const Chain& chain, const CheckmateOptions& options)
      : chain_(chain),
        options_(options),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(std::min(options.deadline_seconds, 1e6)))),
        columns_(checkmate::count_columns(chain)),
        base_(ticks_without_recomputing(chain)) {}

  Result<CheckpointAnswer> answer(std::int64_t budget) {
    Result<CheckpointAnswer> everything = answer_by(chain_, keep_everything(chain_), "everything kept");
    if (!everything || everything->peak_bytes <= budget) return everything;
    if (known_.empty()) {
      known_.push_back(*everything);
      if (Status status = add_segments(); !status) return status.error();
    }
    if (columns_ > options_.max_columns) {
      return cut_off(budget, std::to_string(columns_) + " columns are too many for the integer program of a chain of " +
                                 std::to_string(chain_.stages.size()) + " stages");
    }
    return by_program(budget);
  }

 private:
  // What became of the engine's runs.
  struct Runs {
    bool stopped = false;
    bool cut_off_by_clock = false;
    bool failed = false;
    bool contradicted = false;  // a schedule is known that the engine said there is not

    void add(const EngineAnswer& answer) {
      stopped = stopped || answer.status == EngineStatus::stopped;
      cut_off_by_clock = cut_off_by_clock || answer.cut_off_by_clock;
      failed = failed || answer.status == EngineStatus::failed;
    }
    [[nodiscard]] std::string words() const {
      if (contradicted) return "integer program, whose proof a known schedule contradicts";
      if (failed) return "integer program, at which the engine failed";
      if (cut_off_by_clock) return "integer program, stopped by the clock";
      if (stopped) return "integer program, stopped by its work limit";
      return "integer program, too near to call within the engine's tolerances";
    }
  };

  Status add_segments() {
    for (std::size_t length = 1; length <= chain_.stages.size(); ++length) {
      for (const bool at_once : {true, false}) {
        if (Status status = add(in_segments(chain_.stages.size(), length, at_once), "segments of equal length");
            !status) {
          return status;
        }
      }
    }
    return Done{};
  }

  Status add(Rematerialization decided, const char* method) {
    Result<CheckpointAnswer> made = answer_by(chain_, checkmate::schedule_of(chain_, std::move(decided)), method);
    if (!made) return made.error();
    known_.push_back(*std::move(made));
    return Done{};
  }

  [[nodiscard]] const CheckpointAnswer* fastest(std::int64_t budget) const {
    const CheckpointAnswer* best = nullptr;
    for (const CheckpointAnswer& known : known_) {
      if (known.peak_bytes <= budget && (best == nullptr || known.ticks < best->ticks)) best = &known;
    }
    return best;
  }

  [[nodiscard]] std::int64_t least_known_peak() const {
    std::int64_t least = known_.front().peak_bytes;
    for (const CheckpointAnswer& known : known_) least = std::min(least, known.peak_bytes);
    return least;
  }

  EngineAnswer run(const FrontierProgram& made, bool integer, Runs& runs) const {
    const double seconds = std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count());
    EngineAnswer answer = engine_.run(made.program(), integer, {seconds, options_.work_limit, {}});
    runs.add(answer);
    return answer;
  }

  // What no schedule of the family is below, in whole ticks or bytes: an objective after the engine's tolerances.
  [[nodiscard]] TickSum proven_by(const FrontierProgram& made, double objective) const {
    const double lowered = objective - std::abs(objective) * engine_.relative_margin() - engine_.absolute_margin();
    return made.at_least(std::max(0.0, lowered));
  }

  Status add_rounded(const FrontierProgram& made, const EngineAnswer& found, std::span<const double> thresholds,
                     const char* method) {
    if (found.values.empty()) return Done{};
    for (const double threshold : thresholds) {
      if (Status status = add(made.decided_by(found.values, threshold), method); !status) return status;
    }
    return Done{};
  }

  Result<CheckpointAnswer> by_program(std::int64_t budget) {
    if (TickSum{budget} < peak_bound_) return none_below();
    Runs runs;
    const FrontierProgram made = FrontierProgram::within(chain_, budget);
    const EngineAnswer relaxed = run(made, false, runs);
    if (Status status = add_rounded(made, relaxed, kThresholds, "relaxation, rounded"); !status) return status.error();
    bool nothing_fits = relaxed.status == EngineStatus::infeasible;
    TickSum bound = relaxed.status == EngineStatus::optimal ? base_ + proven_by(made, relaxed.objective) : base_;
    if (!nothing_fits && (fastest(budget) == nullptr || fastest(budget)->ticks > bound)) {
      const EngineAnswer exact = run(made, true, runs);
      if (Status status = add_rounded(made, exact, kWhole, "integer program"); !status) return status.error();
      nothing_fits = exact.status == EngineStatus::infeasible;
      if (exact.status == EngineStatus::optimal) bound = std::max(bound, base_ + proven_by(made, exact.objective));
    }
    const CheckpointAnswer* best = fastest(budget);
    if (best == nullptr) return explain(budget, runs);
    runs.contradicted = nothing_fits || best->ticks < bound;
    if (runs.contradicted) return cut_off(budget, runs.words());
    if (best->ticks > bound) return cut_off(budget, runs.words(), bound);
    CheckpointAnswer answer = *best;
    answer.status = SolveStatus::optimal;
    answer.method += "; proven with " + std::to_string(columns_) + " columns";
    return answer;
  }

  [[nodiscard]] CheckpointAnswer none_below() const {
    return no_answer_below(least_known_peak(), "integer program of the least peak, proven");
  }

  // Nothing within the budget was found: the least peak says why, and may be a schedule that fits all the same.
  Result<CheckpointAnswer> explain(std::int64_t budget, const Runs& runs) {
    if (!least_peak_asked_) {
      least_peak_asked_ = true;
      const FrontierProgram made = FrontierProgram::of_least_peak(chain_);
      const EngineAnswer least = run(made, true, least_peak_runs_);
      if (Status status = add_rounded(made, least, kWhole, "integer program of the least peak"); !status) {
        return status.error();
      }
      if (least.status == EngineStatus::optimal) peak_bound_ = proven_by(made, least.objective);
      if (peak_bound_ > TickSum{least_known_peak()}) {
        least_peak_runs_.contradicted = true;
        peak_bound_ = 0;
      }
    }
    if (fastest(budget) != nullptr) return cut_off(budget, runs.words());
    if (TickSum{budget} < peak_bound_) return none_below();
    const Runs& undecided = least_peak_runs_.stopped || least_peak_runs_.failed ? least_peak_runs_ : runs;
    return no_answer_below(least_known_peak(), undecided.words() + ", so nothing is proven");
  }

  // The fastest schedule that is known, and why nothing is claimed of it.
  [[nodiscard]] CheckpointAnswer cut_off(std::int64_t budget, const std::string& why, TickSum bound = 0) const {
    const CheckpointAnswer* best = fastest(budget);
    if (best == nullptr) return no_answer_below(least_known_peak(), why + ", so nothing is proven");
    CheckpointAnswer answer = *best;
    answer.method += "; " + why;
    if (bound > 0) {
      const double over = to_seconds(answer.ticks - bound) / to_seconds(bound);
      answer.method += ", within " + std::to_string(100 * over) + " % of its bound";
    }
    return answer;
  }

  const Chain& chain_;
  const CheckmateOptions options_;
  const Clock::time_point end_;
  const std::int64_t columns_;
  const TickSum base_;
  const ilp::Highs engine_;
  std::vector<CheckpointAnswer> known_;  // what was found for any budget
  bool least_peak_asked_ = false;
  Runs least_peak_runs_;
  TickSum peak_bound_ = 0;  // no schedule of the family needs less
};

}  // namespace

Result<std::vector<CheckpointAnswer>> Checkmate::do_solve(const Chain& chain,
                                                          std::span<const std::int64_t> budgets) const {
  CheckmateSearch search(chain, options_);
  std::vector<CheckpointAnswer> answers(budgets.size());
  // From the largest to the smallest, so that a schedule for little memory is not all that is known of much.
  for (std::size_t i = budgets.size(); i-- > 0;) {
    Result<CheckpointAnswer> answer = search.answer(budgets[i]);
    if (!answer) return answer.error();
    answers[i] = *std::move(answer);
  }
  // What fits a smaller budget fits a larger one too.
  for (std::size_t i = 1; i < answers.size(); ++i) {
    if (answers[i - 1].status == SolveStatus::infeasible) continue;
    if (answers[i].status != SolveStatus::infeasible && answers[i].ticks <= answers[i - 1].ticks) continue;
    answers[i] = answers[i - 1];
    answers[i].status = SolveStatus::heuristic;
  }
  return answers;
}

namespace {

constexpr meshwright_config_key_v1 kCheckmateSchema[] = {
    {"max_columns", "integer", "columns", "7_000",
     "the largest integer program that HiGHS is given: 4 n (n + 1) columns of n stages, less where inputs of stages "
     "take no bytes; beyond it the answer is the best of segments of equal length"},
    {"work_limit", "integer", "steps", "4_000_000_000", "counted steps after which a run of HiGHS stops"},
    {"deadline_seconds", "number", "seconds", "60.0", "wall time after which it stops all the same"},
};

void* create(const Config& config, Error& error) {
  const CheckmateOptions options = {config.integer("max_columns"), config.integer("work_limit"),
                                    config.number("deadline_seconds")};
  if (options.max_columns >= 0 && options.work_limit > 0 && options.deadline_seconds >= 0) {
    return static_cast<CheckpointSolver*>(new Checkmate(options));
  }
  error = bad_input("max_columns and deadline_seconds must be 0 or more, and work_limit more than 0");
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("checkpoint", "checkmate", "0.1.0", "Apache-2.0",
                  "Checkmate's integer program: the fastest schedule of a short chain, solved by HiGHS", nullptr,
                  kCheckmateSchema, std::size(kCheckmateSchema), create, destroy_plugin<CheckpointSolver>)

}  // namespace meshwright
