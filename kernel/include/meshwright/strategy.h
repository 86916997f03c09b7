// From a model and a mesh to the search problem: which strategies every op has, what they cost, and what it costs to
// join them (DESIGN §2, "Sharding rules" and "Edges and conversions").
//
// The variables of the problem are the differentiable part of the graph:
//   parameter  how it is stored, and in which layout it is computed with
//   node       an op: where each mesh axis goes
//   fork       a value with several differentiable uses: the one layout in which it settles for all of them, and the
//              one in which their gradients are summed before they are reduced
//   output     the loss, or another result that somebody reads
// Values without a gradient (masks, positions) are no variables: each use gets its own copy in the layout it wants,
// and pays its share of making it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "meshwright/axis_choice.h"
#include "meshwright/export.h"
#include "meshwright/layout.h"
#include "meshwright/planning_context.h"
#include "meshwright/recompute.h"
#include "meshwright/strategy_space.h"

namespace meshwright {

// "b", "k.1" (the second atom of k), "repeat", "partial forward" ("partial forward.1": of the second linear group),
// "partial backward"; and back, nothing if the node's rule has no such choice.
MESHWRIGHT_API std::string to_string(const AxisChoice& choice, const AtomizedNode& node);
MESHWRIGHT_API std::optional<AxisChoice> parse_axis_choice(std::string_view text, const AtomizedNode& node);

// The layouts of a tensor and of its gradient where it meets an op. An operand's value is needed in `value`, and the op
// yields its gradient in `gradient`; a result is yielded in `value`, and its gradient is needed in `gradient`.
struct PortLayouts {
  Layout value;
  Layout gradient;
  auto operator<=>(const PortLayouts&) const = default;
};

// How one call lies on the mesh: what each axis does, and the layouts that follow from that.
struct CallLayouts {
  std::vector<AxisChoice> axes;
  std::vector<PortLayouts> operands;
  std::vector<PortLayouts> results;
  bool operator==(const CallLayouts&) const = default;
};

// The layouts of a node's tensors that follow from what each axis does; nothing if a tensor has no room for them.
MESHWRIGHT_API std::optional<CallLayouts> derive_layouts(const Graph& graph, const AtomizedGraph& atoms, NodeId node, const Mesh& mesh,
                                                         const std::vector<AxisChoice>& axes);

// The variables' kinds, in the order of Strategy::choice.
enum class VariableKind : std::uint8_t { parameter, node, fork, output };

// Bytes are on one device.
struct ParameterStrategy {
  PortLayouts stored;                // of the value between steps, and of the gradient once it is reduced
  Layout compute;                    // of the value while it is computed with
  Layout state;                      // of the optimizer's state
  ZeroStage zero = ZeroStage::none;
  bool regather = false;             // The gathered copy is dropped after the forward, and gathered again for the backward.
  bool prefetch = false;             // Each gather starts beside the unit before, and overlaps with it (decision 039).
  double update_seconds = 0;         // per step: the optimizer's step, and the gather of what it changed
  std::int64_t state_bytes = 0;      // its value and the optimizer's state, resident all the time
  std::int64_t gradient_bytes = 0;   // resident from its backward to the update
};

// Seconds are per microbatch, bytes on one device.
struct NodeStrategy {
  CallLayouts call;
  double forward_communication_seconds = 0;   // collectives inside the op
  double backward_communication_seconds = 0;  // collectives inside the op
  // Of these, what converts a tensor that others may convert alike: a program does so once.
  double forward_shared_seconds = 0, backward_shared_seconds = 0;
  double constant_seconds = 0;                // its share of making operands that have no gradient
  std::int64_t saved_bytes = 0;               // resident from its forward to its backward
  // Resident bytes of rank-private results (TensorRule::own) over the bytes of their layouts: an exchange makes room for more rows.
  double own_share = 1;
};

struct ForkStrategy {
  PortLayouts layouts;  // for all uses
};

struct OutputStrategy {
  PortLayouts layouts;
};

struct Strategy {
  std::variant<ParameterStrategy, NodeStrategy, ForkStrategy, OutputStrategy> choice;  // in the order of VariableKind
  // Per microbatch: computing, without communication; and until what another stage of a pipeline hands over is there.
  double forward_seconds = 0, backward_seconds = 0;
  double forward_host_seconds = 0, backward_host_seconds = 0;  // per microbatch: what the host takes to issue it all
  // Per microbatch, of a node that runs again for the backward (Recomputation): its forward, with the collectives inside; and what the host takes.
  double again_seconds = 0, again_host_seconds = 0;

  // Null if it is of another kind.
  [[nodiscard]] const ParameterStrategy* parameter() const { return std::get_if<ParameterStrategy>(&choice); }
  [[nodiscard]] ParameterStrategy* parameter() { return std::get_if<ParameterStrategy>(&choice); }
  [[nodiscard]] const NodeStrategy* node() const { return std::get_if<NodeStrategy>(&choice); }
  [[nodiscard]] NodeStrategy* node() { return std::get_if<NodeStrategy>(&choice); }

  // What is taken at a port; of all kinds but parameters.
  [[nodiscard]] MESHWRIGHT_API const PortLayouts& operand(std::uint32_t port) const;
  // What is yielded at a port; of all kinds but outputs.
  [[nodiscard]] MESHWRIGHT_API const PortLayouts& result(std::uint32_t port) const;
  // Of a step.
  [[nodiscard]] MESHWRIGHT_API double seconds(std::int64_t microbatches) const;
  // What it holds on one device, whether all the time or for a part of the step.
  [[nodiscard]] MESHWRIGHT_API std::int64_t resident_bytes() const;
};

// The strategies of a variable; identical variables (the layers of a transformer) share one set.
struct StrategySet {
  std::uint32_t id = 0;
  std::vector<Strategy> strategies;
};

struct Variable {
  VariableKind kind = VariableKind::node;
  NodeId node = kNoId;    // for node
  ValueId value = kNoId;  // for the others
  std::string name;
  std::shared_ptr<const StrategySet> set;
};

// A value from the variable that yields it to one that uses it.
struct ProblemEdge {
  std::uint32_t from = 0;
  std::uint32_t from_port = 0;
  std::uint32_t to = 0;
  std::uint32_t to_port = 0;
  ValueId value = kNoId;
  bool of_parameter = false;   // `from` is a parameter: its gather and the reduction of its gradient overlap with computing
  double hidden_share = 0;     // the share of the using op's computing with which this parameter's communication overlaps
};

// Bytes of one element of a value, or of its gradient, while it is converted: gradients of parameters are reduced in a dtype of
// their own (TrainingSettings::reduce_dtype).
MESHWRIGHT_API std::int64_t converted_element_bytes(const TrainingSettings& training, DType dtype, bool of_parameter, bool gradient);

// Limits which strategies are considered: for comparisons, and for users who know what they want. Axes are bit masks: bit i
// stands for mesh axis i.
struct StrategyFilter {
  std::uint32_t batch_axes = 0;            // these only ever shard the batch: data parallelism
  std::uint32_t sharded_weight_axes = 0;   // over these, weights of two dimensions and more are computed with in shards
  // If given, every parameter is sharded at this stage, over as many as possible of the axes over which it is replicated for
  // computing; else the search chooses the stage of each parameter.
  std::optional<ZeroStage> zero = std::nullopt;
  std::uint32_t zero_axes = 0xffffffffU;   // ZeRO shards over these axes only: hybrid sharding
  std::optional<bool> regather = std::nullopt;  // ZeRO-3: gather again for the backward, or keep
  std::optional<bool> prefetch = std::nullopt;  // ZeRO-3: gather beside the unit before, or when it is computed with
  std::uint32_t context_axes = 0;          // over these, weights are computed with whole and the batch is not cut: what is left is the sequence, or heads of attention
  // Over these, the experts of each layer lie apart (Exchange in rule.h), whatever batch_axes and context_axes say of weights: where such an axis cuts the batch too, tokens travel to their experts.
  std::uint32_t expert_axes = 0;
  bool operator==(const StrategyFilter&) const = default;
};

struct EdgePrices;  // private to the kernel

// That a term of the space's memory is of what its variable keeps for its backward.
struct SavedTerm {
  std::uint32_t term = 0;   // index into StrategySpace::memory
  ValueId value = kNoId;    // an operand of the variable's node, or a result
  bool of_others = false;   // of other microbatches in flight
};

// The references that were given to build_problem must outlive it.
struct Problem {
  std::vector<Variable> variables;
  std::vector<ProblemEdge> edges;  // as space.edges
  StrategySpace space;             // its nodes are `variables`
  std::size_t strategies = 0;      // in all
  std::shared_ptr<const EdgePrices> edge_prices;
  Recomputation recomputation;     // of ProblemInput::recomputed
  std::vector<SavedTerm> saved;    // ascending; without what is made again
};

// If the model has no backward (ModelAnalysis), every operand of a differentiable op counts as saved.
struct ProblemInput : PlanningContext {
  const Mesh& mesh;
  StrategyFilter filter;
  std::vector<std::string> recomputed = {};  // blocks and ops whose forward runs again for the backward, operands that are converted again (recompute.h)
};

// The classes of atoms (AtomizedGraph::classes) that are the batch: the first dimension of what the user feeds, and what a stage of a pipeline
// receives of it (StageBoundary::batch). `part`: of a stage; null: the model is whole.
MESHWRIGHT_API std::set<std::uint32_t> batch_atoms(const ModelAnalysis& model, const StagePart* part);

// Errors: infeasible if the filter leaves a variable without a strategy (it names the variable), those of `recomputation`, or what a plugin says.
MESHWRIGHT_API Result<Problem> build_problem(const ProblemInput& input);

// The strategies of one call of an op on a mesh, without prices: what golden tests print. `atoms` holds its rule.
MESHWRIGHT_API std::vector<CallLayouts> enumerate_strategies(const AtomizedNode& atoms, const Mesh& mesh,
                                                             const std::vector<const AtomShape*>& operands,
                                                             const std::vector<const AtomShape*>& results,
                                                             const std::vector<bool>& operand_gradients);

}  // namespace meshwright
