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

// One tensor that changes its layout between the variable that yields it and one that uses it. Where both agree on the
// layout there is no conversion, and none is listed.
struct PlannedConversion {
  std::string value;
  std::uint32_t from = 0;  // index into Plan::variables; a gradient travels from the user to the maker
  std::uint32_t to = 0;
  std::uint32_t to_port = 0;  // the operand, at the user
  bool backward = false;
  bool hides = false;  // Overlapped: a parameter's gather or reduction, which runs concurrently with computing.
  std::string source_layout;
  std::string target_layout;
  std::vector<PlannedMove> moves;
  double seconds = 0;
  std::int64_t times = 1;  // how often it runs in a step
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
  // Of a parameter only:
  std::string compute_layout;        // that it is gathered to for computing
  std::string state_layout;          // of what the optimizer keeps
  ZeroStage zero = ZeroStage::none;
  bool regather = false;             // The gathered copy is dropped after the forward, and gathered again for the backward.
  bool prefetch = false;             // Each gather starts one op ahead of the op that needs it.
  double forward_seconds = 0;        // per microbatch
  double backward_seconds = 0;       // per microbatch
  double update_seconds = 0;         // per step
  double communication_seconds = 0;  // per microbatch: collectives inside the op, and its share of making constants
  std::int64_t saved_bytes = 0;      // resident from the forward to the backward, on one device
  std::int64_t state_bytes = 0;      // of a parameter: resident all the time
  std::int64_t gradient_bytes = 0;   // of a parameter: resident from its backward to the update
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
  double lower_bound_seconds = 0;  // No plan within the budget has a lower objective, on any mesh that was searched.
  double step_seconds = 0;         // simulated, with the communication of parameters overlapped
  std::int64_t peak_bytes = 0;     // of one device

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
