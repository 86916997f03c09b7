// What a search ends with: aggregates only, so that a plan can be written, read and compared. It holds everything that
// a later stage needs: the graph itself, the mesh, the layouts of every tensor and every conversion between them.
// The file format is docs/plan-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/conversion.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/mesh.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"
#include "meshwright/solver.h"
#include "meshwright/strategy.h"
#include "meshwright/training.h"

namespace meshwright {

inline constexpr int kPlanFormatVersion = 4;

struct PlannedMove {
  Move move;
  double seconds = 0;
};

// One tensor that changes its layout, and how. It travels from the variable that yields it to one that uses it, a gradient the
// other way; or changes inside a variable. Where both ends agree on the layout there is no conversion, and none is listed.
//
// Inside a node: what its backward has in another layout than a node of the gradient needs; an addend that one rank alone
// adds; a value without a gradient that is cut for it. Inside a parameter: what the update gathers and cuts.
struct PlannedConversion {
  ValueId value = kNoId;  // of the training graph; of a gradient between two variables: the value whose gradient it is
  bool gradient = false;
  bool hides = false;     // Overlapped: a parameter's gather or reduction, which runs concurrently with computing.
  std::uint32_t from = kNoId;  // indices into Plan::variables, equal inside one; kNoId: for an output without a gradient
  std::uint32_t to = kNoId;
  std::uint32_t to_port = kNoId;  // the operand, at the user; kNoId inside a variable
  Layout source, target;
  std::vector<PlannedMove> moves;
  std::int64_t times = 1;  // how often it runs in a step

  [[nodiscard]] MESHWRIGHT_API double seconds() const;
  [[nodiscard]] bool is_inside() const { return to_port == kNoId; }
};

// Gradient layouts of values without a gradient are replicated.
struct PlannedNode {
  NodeId node = kNoId;
  CallLayouts call;
  std::vector<CallLayouts> backward;  // of the nodes of its gradient, as TrainingAnalysis::backward_of
};

struct PlannedParameter {
  ValueId value = kNoId;
  PortLayouts stored;                // the value from step to step, and what its gradient is reduced to
  Layout compute;                    // that it is gathered to for computing
  Layout state;                      // of what the optimizer keeps
  ZeroStage zero = ZeroStage::none;
  bool regather = false;             // The gathered copy is dropped after the forward, and gathered again for the backward.
  bool prefetch = false;             // Each gather starts one op ahead of the op that needs it.
  bool operator==(const PlannedParameter&) const = default;
};

struct PlannedFork {
  ValueId value = kNoId;
  PortLayouts layouts;
};

struct PlannedOutput {
  ValueId value = kNoId;
  PortLayouts layouts;
};

struct PlannedVariable {
  std::variant<PlannedParameter, PlannedNode, PlannedFork, PlannedOutput> choice;  // in the order of VariableKind
  double forward_seconds = 0;        // per microbatch
  double backward_seconds = 0;       // per microbatch
  double update_seconds = 0;         // per step
  double communication_seconds = 0;  // per microbatch: collectives inside the op, and its share of making constants
  std::int64_t saved_bytes = 0;      // resident from the forward to the backward, on one device
  std::int64_t state_bytes = 0;      // of a parameter: resident all the time
  std::int64_t gradient_bytes = 0;   // of a parameter: resident from its backward to the update

  [[nodiscard]] VariableKind kind() const { return static_cast<VariableKind>(choice.index()); }
  // Null if it is of another kind.
  [[nodiscard]] const PlannedNode* node() const { return std::get_if<PlannedNode>(&choice); }
  [[nodiscard]] const PlannedParameter* parameter() const { return std::get_if<PlannedParameter>(&choice); }
};

// How a value without a gradient is made for those who want it in one layout. What its maker yields may have to be cut.
struct PlannedConstant {
  ValueId value = kNoId;  // of the training graph
  Layout wanted;
  CallLayouts made;  // of the node that makes it
};

struct UsedPlugin {
  std::string kind, id, version;
};

struct Plan {
  std::string model_path;
  std::string model_hash;  // of the file's bytes: "fnv1a64:..."
  ModelAnalysis model;  // of one microbatch
  Cluster cluster;
  Mesh mesh;
  TrainingSettings training;
  std::vector<UsedPlugin> plugins;
  std::int64_t budget_bytes = 0;

  SolveStatus status = SolveStatus::heuristic;
  std::string method;
  double objective_seconds = 0;    // the additive cost that the solver minimised
  double lower_bound_seconds = 0;  // No plan within the budget has a lower objective, on any mesh that was searched.
  double step_seconds = 0;         // of its program, simulated (timeline.h); the objective, where it has none
  std::int64_t peak_bytes = 0;     // of one device

  std::vector<PlannedVariable> variables;
  std::vector<PlannedConversion> conversions;
  std::vector<PlannedConstant> constants;
  std::vector<std::string> unruled_ops;  // ops that run replicated because no family has a rule for them
  std::vector<std::string> notes;        // what a reader of the numbers must know

  [[nodiscard]] const Graph& graph() const { return *model.graph; }
  // Of values of the training graph; the forward's come first.
  [[nodiscard]] MESHWRIGHT_API const AtomShape& shape(ValueId value) const;
  [[nodiscard]] MESHWRIGHT_API const TensorType& type(ValueId value) const;
  [[nodiscard]] MESHWRIGHT_API const std::string& name(ValueId value) const;  // a parameter's is the model's
  [[nodiscard]] MESHWRIGHT_API std::string name(const PlannedVariable& variable) const;  // its node's, or its value's; "output X"
  // The path of the module that a node or a parameter belongs to; "" of what is neither.
  [[nodiscard]] MESHWRIGHT_API std::string module(const PlannedVariable& variable) const;
  // Bytes of one element while it is converted.
  [[nodiscard]] MESHWRIGHT_API std::int64_t element_bytes(const PlannedConversion& conversion) const;
};

// A parameter's is the model's.
MESHWRIGHT_API const std::string& value_name(const Graph& graph, ValueId value);

// Everything of the plan that follows from a solved problem; what the host knows (paths, plugins) it fills in itself.
MESHWRIGHT_API Result<Plan> make_plan(const ProblemInput& input, const Problem& problem, const Assignment& assignment);

// What one variable of the plan does if this strategy of it is chosen; of a node without its backward.
MESHWRIGHT_API PlannedVariable plan_variable(const ProblemInput& input, const Variable& variable, const Strategy& strategy);

// Whether two variables of one model do the same.
MESHWRIGHT_API bool same_choice(const PlannedVariable& a, const PlannedVariable& b);

// What a plan from a file must hold to be one of its own model: that layouts follow from axes and rules, that everything
// differentiable has its variable, that conversions lead from where a value lies to where it is wanted by moves that exist.
// What a move takes on a link is not computed again: that depends on what the cluster was profiled with. Errors: bad_input,
// naming the variable or the value.
MESHWRIGHT_API Status validate(const Plan& plan);

}  // namespace meshwright
