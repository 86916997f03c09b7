// What a search ends with: aggregates only, so that a plan can be written, read and compared. It holds everything that
// a later stage needs: the graph itself, the mesh, the layouts of every tensor and every conversion between them.
// The file format is docs/plan-format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/conversion.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"
#include "meshwright/solver.h"
#include "meshwright/strategy.h"
#include "meshwright/training.h"

namespace meshwright {

inline constexpr int kPlanFormatVersion = 3;

struct PlannedMove {
  MoveKind kind = MoveKind::slice;
  std::uint32_t axis = 0;
  std::uint32_t other_axis = 0;  // for permute
  std::string layout;            // after the move
  std::int64_t bytes = 0;        // that one device holds before it
  double seconds = 0;
};

// One tensor on its way from one variable to another. Empty conversions are left out.
struct PlannedConversion {
  std::string value;
  std::uint32_t from = 0;  // index into Plan::variables; a gradient travels from the user to the maker
  std::uint32_t to = 0;
  std::uint32_t to_port = 0;  // the operand, at the user
  bool backward = false;
  bool hides = false;  // a parameter's: runs beside the computing
  std::string source_layout;
  std::string target_layout;
  std::vector<PlannedMove> moves;
  double seconds = 0;
  std::int64_t times = 1;  // a step
};

struct PlannedPort {
  std::string value;
  std::string layout;
  std::string gradient_layout;  // "" if the value has no gradient
};

struct PlannedVariable {
  VariableKind kind = VariableKind::node;
  std::string name;
  std::string op;      // of a node
  std::string module;  // module path
  std::vector<std::string> axes;  // of a node: what each mesh axis does, "b", "k.1", "repeat"
  std::vector<PlannedPort> operands;
  std::vector<PlannedPort> results;
  std::string compute_layout;  // of a parameter, and the three behind it
  std::string state_layout;
  ZeroStage zero = ZeroStage::none;
  bool regather = false;
  bool prefetch = false;
  double forward_seconds = 0;   // of one microbatch, and so are the next and the one behind the update
  double backward_seconds = 0;
  double update_seconds = 0;
  double communication_seconds = 0;  // inside the op, and its share of constants
  std::int64_t saved_bytes = 0;
  std::int64_t state_bytes = 0;
  std::int64_t gradient_bytes = 0;
};

struct UsedPlugin {
  std::string kind, id, version;
};

struct Plan {
  std::string model_path;
  std::string model_hash;  // of the file's bytes: "fnv1a64:..."
  std::shared_ptr<const Graph> graph;  // of one microbatch; never null in a plan that was made or read
  Cluster cluster;
  Mesh mesh;
  TrainingSettings training;
  std::vector<UsedPlugin> plugins;
  std::int64_t budget_bytes = 0;

  SolveStatus status = SolveStatus::heuristic;
  std::string method;
  double objective_seconds = 0;    // the additive cost that the solver minimised
  double lower_bound_seconds = 0;  // no assignment under the budget costs less
  double step_seconds = 0;         // simulated: communication of parameters beside the computing
  std::int64_t peak_bytes = 0;

  std::vector<PlannedVariable> variables;
  std::vector<PlannedConversion> conversions;
  std::vector<std::string> unruled_ops;  // ops that run replicated because no family has a rule for them
  std::vector<std::string> notes;        // what a reader of the numbers must know
};

// Everything of the plan that follows from a solved problem; what the host knows (paths, plugins) it fills in itself.
MESHWRIGHT_API Result<Plan> make_plan(const ProblemInput& input, const Problem& problem, const Assignment& assignment);

// What one variable of the plan does if this strategy of it is chosen.
MESHWRIGHT_API PlannedVariable plan_variable(const ProblemInput& input, const Variable& variable, const Strategy& strategy);

}  // namespace meshwright
