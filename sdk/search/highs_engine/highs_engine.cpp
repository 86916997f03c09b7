#include "highs_engine.h"

#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

namespace meshwright::ilp {

namespace {

constexpr std::int64_t kReadingsPerNode = 100;
constexpr std::int64_t kMostCounted = 1'000'000'000;
constexpr double kTolerance = 1e-8;

struct DeleteHighs {
  void operator()(void* highs) const { Highs_destroy(highs); }
};
using Model = std::unique_ptr<void, DeleteHighs>;  // void to C++, too

struct Counted {
  std::int64_t iterations = 0;
  std::int64_t nodes = 0;
};

std::int64_t count_entries(const LinearProgram& program) {
  std::int64_t count = 0;
  for (const LinearRow& row : program.rows) count += std::ssize(row.entries);
  return count;
}

Counted count(const LinearProgram& program, std::int64_t work) {
  const auto readings = [work](std::int64_t size) { return work / std::max<std::int64_t>(size, 1); };
  return {std::clamp<std::int64_t>(readings(std::ssize(program.rows)), 1, kMostCounted),
          std::clamp<std::int64_t>(readings(count_entries(program)) / kReadingsPerNode, 1, kMostCounted)};
}

// The program in arrays, its entries by row.
bool load(void* highs, const LinearProgram& program, bool integer) {
  std::vector<double> costs, lowers(program.columns.size(), 0), uppers, least, most, factors;
  std::vector<HighsInt> kinds, starts = {0}, columns;
  const double infinity = Highs_getInfinity(highs);
  for (const LinearColumn& column : program.columns) {
    costs.push_back(column.cost);
    uppers.push_back(std::min(column.upper, infinity));
    kinds.push_back(column.integer ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
  }
  for (const LinearRow& row : program.rows) {
    least.push_back(row.relation == Relation::equal ? row.right : -infinity);
    most.push_back(row.right);
    for (const LinearEntry& entry : row.entries) {
      columns.push_back(static_cast<HighsInt>(entry.column));
      factors.push_back(entry.factor);
    }
    starts.push_back(static_cast<HighsInt>(columns.size()));
  }
  const auto rows = static_cast<HighsInt>(program.rows.size());
  const auto entries = static_cast<HighsInt>(columns.size());
  return Highs_passMip(highs, static_cast<HighsInt>(costs.size()), rows, entries, kHighsMatrixFormatRowwise,
                       kHighsObjSenseMinimize, 0, costs.data(), lowers.data(), uppers.data(), least.data(), most.data(),
                       starts.data(), columns.data(), factors.data(),
                       integer ? kinds.data() : nullptr) != kHighsStatusError;
}

void tune(void* highs, const Counted& counted, double seconds) {
  Highs_setBoolOptionValue(highs, "output_flag", 0);  // first, so that nothing is said of the others
  Highs_setIntOptionValue(highs, "threads", 1);
  Highs_setStringOptionValue(highs, "parallel", "off");
  Highs_setStringOptionValue(highs, "solver", "simplex");
  // Presolve may not end (1.15.1; seen on a program of 54 columns), and looks at no limit there. The space was reduced
  // already; nor do programs that heuristics make of a part of this one get any.
  Highs_setStringOptionValue(highs, "presolve", "off");
  for (const char* heuristic : {"mip_heuristic_run_rins", "mip_heuristic_run_rens", "mip_heuristic_run_root_reduced_cost"}) {
    Highs_setBoolOptionValue(highs, heuristic, 0);
  }
  // Its analytic centre of the first relaxation would be found by a method that loads a library of its own.
  Highs_setStringOptionValue(highs, "mip_ipm_solver", "ipx");
  for (const char* tolerance :
       {"primal_feasibility_tolerance", "dual_feasibility_tolerance", "mip_feasibility_tolerance", "mip_abs_gap"}) {
    Highs_setDoubleOptionValue(highs, tolerance, kTolerance);
  }
  Highs_setDoubleOptionValue(highs, "mip_rel_gap", 0);
  Highs_setDoubleOptionValue(highs, "time_limit", seconds);
  Highs_setIntOptionValue(highs, "simplex_iteration_limit", static_cast<HighsInt>(counted.iterations));
  Highs_setIntOptionValue(highs, "mip_max_nodes", static_cast<HighsInt>(counted.nodes));
}

void ask_whether_to_go_on(int, const char*, const HighsCallbackDataOut* said, HighsCallbackDataIn* answer,
                          void* counted) {
  if (said->mip_total_lp_iterations > static_cast<const Counted*>(counted)->iterations) answer->user_interrupt = 1;
}

EngineAnswer solve(const LinearProgram& program, bool integer, const EngineLimits& limits) {
  EngineAnswer answer;
  const Model model(Highs_create());
  if (!model) return answer;
  void* highs = model.get();
  Counted counted = count(program, limits.work);
  tune(highs, counted, limits.seconds);
  if (!load(highs, program, integer)) return answer;
  Highs_setCallback(highs, ask_whether_to_go_on, &counted);
  Highs_startCallback(highs, kHighsCallbackMipInterrupt);
  if (Highs_run(highs) == kHighsStatusError) return answer;
  switch (Highs_getModelStatus(highs)) {
    case kHighsModelStatusOptimal:
    case kHighsModelStatusModelEmpty:
      answer.status = EngineAnswer::Status::optimal;
      break;
    case kHighsModelStatusInfeasible:
      answer.status = EngineAnswer::Status::infeasible;
      return answer;
    case kHighsModelStatusTimeLimit:
      answer.cut_off_by_clock = true;
      [[fallthrough]];
    case kHighsModelStatusIterationLimit:
    case kHighsModelStatusSolutionLimit:
    case kHighsModelStatusInterrupt:
      answer.status = EngineAnswer::Status::stopped;
      break;
    default:
      return answer;
  }
  HighsInt solution = kHighsSolutionStatusNone;
  Highs_getIntInfoValue(highs, "primal_solution_status", &solution);
  if (solution != kHighsSolutionStatusFeasible) return answer;
  std::vector<double> values(program.columns.size());
  if (Highs_getSolution(highs, values.data(), nullptr, nullptr, nullptr) == kHighsStatusError) return {};
  answer.values = std::move(values);
  answer.objective = Highs_getObjectiveValue(highs);
  return answer;
}

}  // namespace

EngineAnswer Highs::run(const LinearProgram& program, bool integer, const EngineLimits& limits) const {
  try {
    return solve(program, integer, limits);
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // the answer is then the messages' and the local search's
    return {};
  }
}

}  // namespace meshwright::ilp
