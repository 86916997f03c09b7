#include "engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include <lpsolve/lp_lib.h>

namespace meshwright::ilp {

namespace {

using Clock = std::chrono::steady_clock;

struct DeleteModel {
  void operator()(lprec* model) const { delete_lp(model); }
};
using Model = std::unique_ptr<lprec, DeleteModel>;

int past_deadline(lprec*, void* end) { return Clock::now() > *static_cast<Clock::time_point*>(end) ? 1 : 0; }

Model make_model(const LinearProgram& program, bool integer) {
  const int columns = static_cast<int>(program.columns.size());
  Model model(make_lp(0, columns));
  if (!model) return nullptr;
  set_verbose(model.get(), NEUTRAL);
  set_minim(model.get());
  std::vector<REAL> costs(program.columns.size() + 1, 0);
  for (int i = 1; i <= columns; ++i) {
    const LinearColumn& column = program.columns[static_cast<std::size_t>(i - 1)];
    costs[static_cast<std::size_t>(i)] = column.cost;
    if (std::isfinite(column.upper) && !set_upbo(model.get(), i, column.upper)) return nullptr;
    if (integer && column.integer && !set_int(model.get(), i, 1)) return nullptr;
  }
  if (!set_obj_fn(model.get(), costs.data())) return nullptr;
  set_add_rowmode(model.get(), 1);
  std::vector<REAL> factors;
  std::vector<int> numbers;
  for (const LinearRow& row : program.rows) {
    factors.clear();
    numbers.clear();
    for (const LinearEntry& entry : row.entries) {
      factors.push_back(entry.factor);
      numbers.push_back(static_cast<int>(entry.column) + 1);
    }
    const int relation = row.relation == Relation::equal ? EQ : LE;
    if (!add_constraintex(model.get(), static_cast<int>(factors.size()), factors.data(), numbers.data(), relation,
                          row.right)) {
      return nullptr;
    }
  }
  set_add_rowmode(model.get(), 0);
  return model;
}

// What dives well on these programs (measured; DESIGN §6).
void tune(lprec* model) {
  set_bb_floorfirst(model, BRANCH_CEILING);
  set_bb_rule(model, NODE_FRACTIONSELECT + NODE_GREEDYMODE);
  set_simplextype(model, SIMPLEX_DUAL_DUAL);
  set_improve(model, IMPROVE_DUALFEAS | IMPROVE_THETAGAP);
}

}  // namespace

EngineAnswer LpSolve::run(const LinearProgram& program, bool integer, const EngineLimits& limits) const {
  EngineAnswer answer;
  const Model model = make_model(program, integer);
  if (!model) return answer;
  tune(model.get());
  auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  put_abortfunc(model.get(), past_deadline, &end);
  set_timeout(model.get(), static_cast<long>(std::ceil(std::max(limits.seconds, 1.0))));
  if (limits.good_enough) set_break_at_value(model.get(), *limits.good_enough);
  const int code = solve(model.get());
  switch (code) {
    case OPTIMAL:
    case PRESOLVED:
      answer.status = EngineAnswer::Status::optimal;
      break;
    case INFEASIBLE:
      answer.status = EngineAnswer::Status::infeasible;
      return answer;
    case SUBOPTIMAL:
      answer.status = EngineAnswer::Status::stopped;
      answer.cut_off_by_clock = Clock::now() >= end;
      break;
    case USERABORT:
    case TIMEOUT:
      answer.status = EngineAnswer::Status::stopped;
      answer.cut_off_by_clock = Clock::now() >= end;
      return answer;
    default:
      return answer;
  }
  answer.values.resize(program.columns.size());
  if (!get_variables(model.get(), answer.values.data())) return {};
  answer.objective = get_objective(model.get());
  return answer;
}

}  // namespace meshwright::ilp
