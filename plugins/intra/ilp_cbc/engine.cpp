#include "engine.h"

#include <coin/Cbc_C_Interface.h>

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
constexpr std::int64_t kMostNodes = 1'000'000'000;
constexpr double kInfinity = 1e30;  // what CBC takes for infinite

struct DeleteModel {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};
using Model = std::unique_ptr<Cbc_Model, DeleteModel>;

std::int64_t count_entries(const LinearProgram& program) {
  std::int64_t count = 0;
  for (const LinearRow& row : program.rows) count += static_cast<std::int64_t>(row.entries.size());
  return count;
}

// The program's entries by column, as CBC wants them.
struct Matrix {
  explicit Matrix(const LinearProgram& program)
      : starts(program.columns.size() + 1, 0),
        rows(static_cast<std::size_t>(count_entries(program))),
        factors(rows.size()) {
    for (const LinearRow& row : program.rows) {
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

  std::vector<CoinBigIndex> starts;
  std::vector<int> rows;
  std::vector<double> factors;
};

Model make_model(const LinearProgram& program, bool integer) {
  std::vector<double> costs, uppers, least, most;
  for (const LinearColumn& column : program.columns) {
    costs.push_back(column.cost);
    uppers.push_back(std::min(column.upper, kInfinity));
  }
  for (const LinearRow& row : program.rows) {
    least.push_back(row.relation == Relation::equal ? row.right : -kInfinity);
    most.push_back(row.right);
  }
  const std::vector<double> lowers(costs.size(), 0);
  const Matrix matrix(program);
  Model model(Cbc_newModel());
  Cbc_loadProblem(model.get(), static_cast<int>(costs.size()), static_cast<int>(least.size()), matrix.starts.data(),
                  matrix.rows.data(), matrix.factors.data(), lowers.data(), uppers.data(), costs.data(), least.data(),
                  most.data());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (integer && program.columns[i].integer) Cbc_setInteger(model.get(), static_cast<int>(i));
  }
  return model;
}

void set(Cbc_Model* model, const char* name, const std::string& value) { Cbc_setParameter(model, name, value.c_str()); }

void tune(Cbc_Model* model, const LinearProgram& program, const EngineLimits& limits) {
  Cbc_setLogLevel(model, 0);
  set(model, "log", "0");
  set(model, "slog", "0");
  set(model, "threads", "0");  // none besides this one
  set(model, "timeMode", "elapsed");
  set(model, "sec", std::to_string(std::min(limits.seconds, 1e9)));
  const std::int64_t readings = limits.work / std::max<std::int64_t>(count_entries(program), 1);
  set(model, "maxNodes", std::to_string(std::clamp<std::int64_t>(readings / kReadingsPerNode, 1, kMostNodes)));
  set(model, "primalTolerance", "1e-8");
  set(model, "dualTolerance", "1e-8");
  set(model, "increment", "1e-6");
  set(model, "allowableGap", "0");
  set(model, "ratioGap", "0");
}

}  // namespace

EngineAnswer Cbc::run(const LinearProgram& program, bool integer, const EngineLimits& limits) const {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  EngineAnswer answer;
  const Model model = make_model(program, integer);
  tune(model.get(), program, limits);
  try {
    Cbc_solve(model.get());
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // CoinError, which is no std::exception: the answer is then the messages' and the local search's
    return answer;
  }
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
    if (stopped && integer) values = Cbc_bestSolution(model.get());
  }
  if (values == nullptr) return answer;
  answer.values.assign(values, values + program.columns.size());
  answer.objective = Cbc_getObjValue(model.get());
  return answer;
}

}  // namespace meshwright::ilp
