#include "engine.h"

#include <coin/Cbc_C_Interface.h>
#include <coin/Clp_C_Interface.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace meshwright::ilp {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kReadingsPerNode = 100;
constexpr std::int64_t kMostCounted = 1'000'000'000;
constexpr double kTolerance = 1e-8;
constexpr int kClpOutOfTime = 9;
constexpr double kInfinity = 1e30;  // what CBC takes for infinite

// Both libraries' models are void to C++.
struct DeleteCbc {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};
struct DeleteClp {
  void operator()(Clp_Simplex* model) const { Clp_deleteModel(model); }
};
using IntegerModel = std::unique_ptr<Cbc_Model, DeleteCbc>;
using Relaxation = std::unique_ptr<Clp_Simplex, DeleteClp>;

std::int64_t count_entries(const LinearProgram& program) {
  std::int64_t count = 0;
  for (const LinearRow& row : program.rows) count += static_cast<std::int64_t>(row.entries.size());
  return count;
}

// The program in arrays, its entries by column, as CBC and Clp want them.
struct Arrays {
  explicit Arrays(const LinearProgram& program)
      : starts(program.columns.size() + 1, 0),
        rows(static_cast<std::size_t>(count_entries(program))),
        factors(rows.size()),
        lowers(program.columns.size(), 0) {
    for (const LinearColumn& column : program.columns) {
      costs.push_back(column.cost);
      uppers.push_back(std::min(column.upper, kInfinity));
    }
    for (const LinearRow& row : program.rows) {
      least.push_back(row.relation == Relation::equal ? row.right : -kInfinity);
      most.push_back(row.right);
      for (const LinearEntry& entry : row.entries) ++starts[entry.column + 1];
    }
    for (std::size_t column = 0; column < program.columns.size(); ++column) starts[column + 1] += starts[column];
    std::vector<CoinBigIndex> next(starts.begin(), starts.end() - 1);
    for (std::size_t row = 0; row < program.rows.size(); ++row) {
      for (const LinearEntry& entry : program.rows[row].entries) {
        const auto at = static_cast<std::size_t>(next[entry.column]++);
        rows[at] = static_cast<int>(row);
        factors[at] = entry.factor;
      }
    }
  }

  // `load` is Cbc_loadProblem or Clp_loadProblem.
  template <class Model, class Load>
  void load(Model* model, Load* load) const {
    load(model, static_cast<int>(costs.size()), static_cast<int>(least.size()), starts.data(), rows.data(),
         factors.data(), lowers.data(), uppers.data(), costs.data(), least.data(), most.data());
  }

  std::vector<CoinBigIndex> starts;
  std::vector<int> rows;
  std::vector<double> factors;
  std::vector<double> lowers, uppers, costs;  // of columns
  std::vector<double> least, most;            // of rows
};

void set(Cbc_Model* model, const char* name, const std::string& value) { Cbc_setParameter(model, name, value.c_str()); }

void tune(Cbc_Model* model, const LinearProgram& program, const EngineLimits& limits) {
  Cbc_setLogLevel(model, 0);
  set(model, "log", "0");
  set(model, "slog", "0");
  set(model, "threads", "0");  // none besides this one
  set(model, "timeMode", "elapsed");
  set(model, "sec", std::to_string(std::min(limits.seconds, 1e9)));
  const std::int64_t readings = limits.work / std::max<std::int64_t>(count_entries(program), 1);
  set(model, "maxNodes", std::to_string(std::clamp<std::int64_t>(readings / kReadingsPerNode, 1, kMostCounted)));
  set(model, "primalTolerance", "1e-8");
  set(model, "dualTolerance", "1e-8");
  set(model, "increment", "1e-6");
  set(model, "allowableGap", "0");
  set(model, "ratioGap", "0");
}

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// By Clp itself: CBC's interface solves relaxations without a look at the clock, and several times as slowly.
EngineAnswer solve_relaxation(const LinearProgram& program, const EngineLimits& limits) {
  const Clock::time_point end = after(limits.seconds);
  EngineAnswer answer;
  const Relaxation model(Clp_newModel());
  Clp_setLogLevel(model.get(), 0);
  Arrays(program).load(model.get(), Clp_loadProblem);
  const std::int64_t iterations = limits.work / std::max<std::int64_t>(std::ssize(program.rows), 1);
  Clp_setMaximumIterations(model.get(), static_cast<int>(std::clamp<std::int64_t>(iterations, 1, kMostCounted)));
  Clp_setMaximumSeconds(model.get(), limits.seconds);
  Clp_setPrimalTolerance(model.get(), kTolerance);
  Clp_setDualTolerance(model.get(), kTolerance);
  Clp_dual(model.get(), 0);
  const int detail = Clp_secondaryStatus(model.get());
  switch (Clp_status(model.get())) {
    case 0:
      if (detail != 0) return answer;  // optimal only as scaled
      answer.status = EngineAnswer::Status::optimal;
      break;
    case 1:
      if (detail == 0) answer.status = EngineAnswer::Status::infeasible;  // else only probably
      return answer;
    case 3:
      answer.status = EngineAnswer::Status::stopped;
      answer.cut_off_by_clock = detail == kClpOutOfTime || Clock::now() >= end;
      return answer;
    default:
      return answer;
  }
  const double* values = Clp_primalColumnSolution(model.get());
  answer.values.assign(values, values + program.columns.size());
  answer.objective = Clp_objectiveValue(model.get());
  return answer;
}

EngineAnswer solve_program(const LinearProgram& program, const EngineLimits& limits) {
  const Clock::time_point end = after(limits.seconds);
  EngineAnswer answer;
  const IntegerModel model(Cbc_newModel());
  Arrays(program).load(model.get(), Cbc_loadProblem);
  for (std::size_t i = 0; i < program.columns.size(); ++i) {
    if (program.columns[i].integer) Cbc_setInteger(model.get(), static_cast<int>(i));
  }
  tune(model.get(), program, limits);
  Cbc_solve(model.get());
  if (Cbc_isProvenInfeasible(model.get()) != 0) {
    answer.status = EngineAnswer::Status::infeasible;
    return answer;
  }
  const double* values = nullptr;
  if (Cbc_isProvenOptimal(model.get()) != 0) {
    answer.status = EngineAnswer::Status::optimal;
    values = Cbc_getColSolution(model.get());
  } else {
    answer.cut_off_by_clock = Clock::now() >= end || Cbc_isSecondsLimitReached(model.get()) != 0;
    const bool stopped = answer.cut_off_by_clock || Cbc_isNodeLimitReached(model.get()) != 0;
    answer.status = stopped ? EngineAnswer::Status::stopped : EngineAnswer::Status::failed;
    if (stopped) values = Cbc_bestSolution(model.get());
  }
  if (values == nullptr) return answer;
  answer.values.assign(values, values + program.columns.size());
  answer.objective = Cbc_getObjValue(model.get());
  return answer;
}

}  // namespace

EngineAnswer Cbc::run(const LinearProgram& program, bool integer, const EngineLimits& limits) const {
  try {
    return integer ? solve_program(program, limits) : solve_relaxation(program, limits);
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // CoinError, which is no std::exception: the answer is then the messages' and the local search's
    return {};
  }
}

}  // namespace meshwright::ilp
