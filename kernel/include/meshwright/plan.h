// What a search ends with: aggregates only, so that a plan can be written, read and compared. It holds everything that
// a later stage needs: the graph itself, the mesh, the layouts of every tensor and every conversion between them.
// The file format is docs/plan-format.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/conversion.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/memory_account.h"
#include "meshwright/mesh.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"
#include "meshwright/runner_up.h"
#include "meshwright/solver.h"
#include "meshwright/stage_part.h"
#include "meshwright/strategy.h"
#include "meshwright/training.h"

namespace meshwright {

inline constexpr int kPlanFormatVersion = 4;

struct PlannedMove {
  Move move;
  double seconds = 0;
};

// One tensor that changes its layout, and how. A value is converted on the way from the variable that yields it to one that
// uses it, a gradient on the way back; or a tensor is converted inside one variable. Where no layout changes there is no
// conversion.
//
// Inside a node: a tensor that a node of its gradient needs in another layout than it is at hand; an addend, which one rank
// alone adds; a value without a gradient, of which each rank keeps a part. Inside a parameter: what the update gathers and cuts.
struct PlannedConversion {
  ValueId value = kNoId;  // of the training graph; of a gradient between two variables: the value whose gradient it is
  bool gradient = false;
  bool hides = false;     // Overlapped: a parameter's gather or reduction, which runs concurrently with computing.
  // Indices into Plan::variables, equal for a conversion inside a variable; kNoId for an output that has no variable.
  std::uint32_t from = kNoId;
  std::uint32_t to = kNoId;
  std::uint32_t to_port = kNoId;  // which operand of the user it is; kNoId inside a variable
  Layout source, target;
  std::vector<PlannedMove> moves;
  std::int64_t times = 1;  // how often it runs in a step

  [[nodiscard]] MESHWRIGHT_API double seconds() const;
  [[nodiscard]] bool is_inside() const { return to_port == kNoId; }
};

// Of a value without a gradient the gradient's layout is replicated.
struct PlannedNode {
  NodeId node = kNoId;
  CallLayouts call;
  std::vector<CallLayouts> backward;  // one for each node of its gradient (TrainingAnalysis::backward_of)
};

struct PlannedParameter {
  ValueId value = kNoId;
  PortLayouts stored;                // of the value between steps, and of the gradient once it is reduced
  Layout compute;                    // of the value while it is computed with
  Layout state;                      // of the optimizer's state
  ZeroStage zero = ZeroStage::none;
  bool regather = false;             // The gathered copy is dropped after the forward, and gathered again for the backward.
  bool prefetch = false;             // Each gather starts beside the unit before (decision 039).
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
  double backward_seconds = 0;       // per microbatch; what runs again for it included
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

// How a value without a gradient is made for the uses that want it in one layout. If its node makes more than that, each rank
// keeps its part.
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
  StagePart part;

  SolveStatus status = SolveStatus::heuristic;  // of the step: optimal within 0.1 %; of the objective where no step was searched for
  std::string method;
  double objective_seconds = 0;    // the additive cost that the solver minimised
  double lower_bound_seconds = 0;  // No plan within the budget has a lower objective, on any mesh that was searched.
  double forward_seconds = 0;      // of the simulated step, its forwards
  double step_seconds = 0;         // simulated, of the plan's program (timeline.h); the objective if it has no program
  double step_lower_bound_seconds = 0;  // No plan within the budget has a shorter step, on any mesh that was searched; 0: nothing is proven.
  // Gradients are sent together when they have so many bytes (decision 045): at most CostProfile::bucket_bytes. `objective_seconds` and the
  // seconds of conversions are of buckets of that size.
  std::int64_t bucket_bytes = CostProfile{}.bucket_bytes;
  // What the communication stream uses is kept until that is done, as long as a device holds no more than so many bytes, or than it must.
  std::int64_t room_bytes = 0;
  std::int64_t peak_bytes = 0;     // of one device
  MemoryAccount memory;            // of one device: the peak, and all else that its memory holds

  std::vector<std::string> recomputed;  // blocks and ops whose forward runs again for the backward, in the model's order, and operands converted again (recompute.h)
  std::vector<PlannedVariable> variables;
  std::vector<PlannedConversion> conversions;
  std::vector<PlannedConstant> constants;
  std::vector<std::string> unruled_ops;  // ops that run replicated because no family has a rule for them
  std::vector<std::string> notes;        // what a reader of the numbers must know
  std::optional<RunnerUp> runner_up;     // the second best distinct plan; nothing: none is known, or nobody asked

  [[nodiscard]] const Graph& graph() const { return *model.graph; }
  // Of a value of the training graph, whose first values are the forward's.
  [[nodiscard]] MESHWRIGHT_API const AtomShape& shape(ValueId value) const;
  [[nodiscard]] MESHWRIGHT_API const TensorType& type(ValueId value) const;
  [[nodiscard]] MESHWRIGHT_API const std::string& name(ValueId value) const;  // as value_name
  [[nodiscard]] MESHWRIGHT_API std::string name(const PlannedVariable& variable) const;  // its node's, or its value's; "output X"
  // The path of the module that a node or a parameter belongs to; "" of what is neither.
  [[nodiscard]] MESHWRIGHT_API std::string module(const PlannedVariable& variable) const;
  // What a conversion converts, as its moves are found and priced. The plan and the profile must outlive it.
  [[nodiscard]] MESHWRIGHT_API ConversionProblem problem(const PlannedConversion& conversion, const CostProfile& profile) const;
  // What one device holds of the converted tensor in one of its layouts.
  [[nodiscard]] MESHWRIGHT_API std::int64_t local_bytes(const PlannedConversion& conversion, const Layout& layout) const;
};

// A parameter has the name that the model gives it, any other value its name in the graph.
MESHWRIGHT_API const std::string& value_name(const Graph& graph, ValueId value);

// The plan of a solved problem, without what only the host knows: paths, plugins, the cluster, the budget.
MESHWRIGHT_API Result<Plan> make_plan(const ProblemInput& input, const Problem& problem, const Assignment& assignment);

// A variable of the plan as this strategy has it. `backward` of a node is left empty.
MESHWRIGHT_API PlannedVariable plan_variable(const ProblemInput& input, const Variable& variable, const Strategy& strategy);

// Whether two variables of plans of one model have the same choice, whatever they cost.
MESHWRIGHT_API bool same_choice(const PlannedVariable& a, const PlannedVariable& b);

// Holds a plan from a file against its own model: layouts follow from axes and rules, everything differentiable has its
// variable, each conversion leads from the layout in which a value is to the one in which it is wanted, by moves that exist.
// The seconds of moves are not checked, since they depend on the profile of the cluster. Errors: bad_input, naming the
// variable or the value.
MESHWRIGHT_API Status validate(const Plan& plan);

}  // namespace meshwright
