// What the kernel knows about ops, it knows from op families: plugins of kind "ops", each serving the ops that its
// descriptor names. A family is stateless, const and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/graph_builder.h"
#include "meshwright/result.h"
#include "meshwright/rule.h"
#include "meshwright/tensor.h"

namespace meshwright {

// One call of an op, with the types of its tensors (global shapes).
struct OpCall {
  const Node& node;
  std::vector<TensorType> operands;  // as node.operands
  std::vector<TensorType> results;   // as node.results
  // Where whoever computes the call would have its results, as `results`: memory that no operand lies in, each of as many
  // bytes as the result. Empty: anywhere.
  std::vector<std::span<std::byte>> memory = {};
  // As operands: whether it lies in memory with its last two dimensions exchanged, which kernels may say that they read
  // (OpKernels::reads_transposed). Empty: none does. The types above are of what is meant.
  std::vector<bool> transposed = {};

  // A tensor to be given out as result i, in its memory if there is one. It holds anything: each element has to be written.
  [[nodiscard]] Tensor result(std::size_t i) const { return memory.empty() ? Tensor::uncleared(results[i]) : Tensor::in(memory[i], results[i]); }
  // The same, of zeros.
  [[nodiscard]] Tensor zeros(std::size_t i) const {
    Tensor made = result(i);
    made.clear();
    return made;
  }

  [[nodiscard]] const TensorType* operand(std::string_view name) const {
    const auto index = node.operand_index(name);
    return index ? &operands[*index] : nullptr;
  }
};

MESHWRIGHT_API OpCall make_call(const Graph& graph, const Node& node);

// Whether an operand or a result holds complex numbers, of which no rule, gradient or meaning of a family speaks.
MESHWRIGHT_API bool has_complex(const OpCall& call);

// Errors: plugin_failed, if these are not the call's results: of other types, or one in the memory that is another one's.
MESHWRIGHT_API Status check_results(const OpCall& call, std::span<const Tensor> results);

// One call whose gradient is wanted.
struct GradientCall {
  const Node& node;
  std::vector<ValueId> result_gradients;  // as node.results; kNoId: nobody used that result
  std::vector<bool> wanted;               // as node.operands
  GraphBuilder& build;

  [[nodiscard]] TensorType type(ValueId id) const { return build.type(id); }
  // The operand's value, or kNoId if the call does not have it.
  [[nodiscard]] ValueId operand(std::string_view name) const {
    const auto index = node.operand_index(name);
    return index ? node.operands[*index].value : kNoId;
  }
};

// Floating-point work: `flops` for each point of the space that `factors` span. If `is_causal`, only the points on and below
// the diagonal of the factor `causal` count, which are half of all. Of p shards of that factor the last one has a share of
// (2p-1)/2p, and the price is that of the slowest rank.
struct WorkTerm {
  double flops = 0;
  std::vector<FactorId> factors;
  bool is_causal = false;
  FactorId causal = 0;
};

// With which others a call becomes one kernel where a compiler fuses (TrainingSettings::compile, fusion.h).
enum class Fusion : std::uint8_t {
  none,       // a kernel of its own: products, attention, convolutions, look-ups, sorts
  pointwise,  // an element of a result depends on the elements of the operands at its place, and on nothing else of them
  // A sum or the like along the factors that are whole, internal or absent from the results; and perhaps what is computed with
  // it, element by element: norms, softmax.
  reduction,
};

// What a call costs beyond what its rule implies: from the rule the kernel derives local sizes, and from these the bytes that
// the call reads and writes. The backward is priced node by node, as ops of its own.
struct OpCost {
  std::vector<WorkTerm> forward;
  bool matrix = false;   // runs on the matrix units
  // Of attention in one kernel, which runs at rates of its own: the factors of the keys and of a head's size.
  struct Attention {
    FactorId keys = 0, head = 0;
    bool is_backward = false;
  };
  std::optional<Attention> attention = std::nullopt;
  bool alias = false;    // The results are views that share operand 0's storage: nothing moves, nothing is saved.
  bool keeps_order = false;  // Of an alias with one result: it is all of operand 0, element by element, in another shape.
  bool transposes = false;   // Of an alias with one result: it is operand 0 with its last two dimensions exchanged.
  bool gathers = false;  // Reads of each operand at most as many bytes as the results have: an embedding reads the rows it needs.
  Fusion fusion = Fusion::none;  // of an alias it says nothing
  // Only for models without a backward (ModelAnalysis::no_backward), where the kernel has to assume what a backward would
  // cost: one contraction over the same points for each differentiable operand that is no addend if `matrix`, else twice
  // the forward's work.
  bool alias_backward = false;  // It would be a view, and cost nothing.
  double backward_ratio = 0;    // its FLOPs over the forward's, if not as assumed
};

// A node that takes another one's place. Either one op stands for many nodes, which spread one idea that a rule can say
// only as a whole (MoE routing as sort, histc and index_put); or the graph says less than PyTorch does when it runs it: a
// pooling also keeps where its maxima were.
struct Composite {
  Node node;      // reads values of the graph, and new ones that `before` makes
  NodeId at = 0;  // the node whose place it takes; its first results are that one's; what nobody needs then is dropped
  std::vector<Node> before;   // run right before it
  std::vector<Value> values;  // new ones: results of `before`, and of `node` beyond those that are known; i is named kNewValue + i
};
inline constexpr ValueId kNewValue = 0x80000000U;

struct FoundComposites {
  std::vector<Composite> composites;
  std::vector<std::string> refused;  // what looks like it, and why it stays in pieces: a sentence with the node's name
};

struct LocalCall;  // local_call.h

class MESHWRIGHT_API OpFamily {
 public:
  virtual ~OpFamily();

  // The sharding rule of this call. Errors: bad_input if the attributes are not supported (the op then runs
  // replicated, with a warning that carries the message). The wrapper validates the rule against the shapes.
  Result<Rule> rule(const OpCall& call) const;

  // The cost of this call, in terms of `rule`, which this family made for it.
  Result<OpCost> cost(const OpCall& call, const Rule& rule) const;

  // Emits the nodes of the call's gradient. One value for each operand: its gradient, in its own type, or kNoId if it
  // has none or none is asked for. What the nodes use of the forward's values is what is saved for the backward, so it
  // follows PyTorch's formulas. Errors: bad_input, "states no gradient", unless the family overrides it.
  Result<std::vector<ValueId>> gradient(const GradientCall& call) const;

  // What the op means, in plain C++: the results, of the types that `call.results` says, from the operands, which have
  // the types that `call.operands` says. Sizes come from the types, not from attributes that repeat them, so that a
  // shard is computed by the same code. Floating point is float32 or float64.
  // Errors: bad_input, "is not computed", unless the family overrides it.
  Result<std::vector<Tensor>> evaluate(const OpCall& call, std::span<const Tensor* const> operands) const;

  // Emits what one rank executes for a sharded call: the op itself on local shapes, unless the family overrides it
  // because attributes are sizes or positions, or because the rule leaves something to be done (a maximum over sharded
  // classes, a mean's count).
  Status localize(const LocalCall& call) const;

  // What this family can gather in `graph`; nothing, unless the family overrides it.
  Result<FoundComposites> find_composites(const Graph& graph) const;

 private:
  virtual Result<Rule> do_rule(const OpCall& call) const = 0;
  virtual Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const = 0;
  virtual Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const;
  virtual Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const;
  virtual Status do_localize(const LocalCall& call) const;
  virtual FoundComposites do_find_composites(const Graph& graph) const;
};

// Which family serves an op; null if none does.
class MESHWRIGHT_API OpTable {
 public:
  virtual ~OpTable();
  [[nodiscard]] virtual const OpFamily* find(std::string_view op) const = 0;
  // Each family once, in an order that does not change from run to run; none, unless overridden.
  [[nodiscard]] virtual std::vector<const OpFamily*> families() const { return {}; }
};

// Puts the composites that the families of `ops` find into the graph, in place of what they stand for. Gives what they
// refused, a sentence each. Errors: plugin_failed if a composite does not fit into the graph.
MESHWRIGHT_API Result<std::vector<std::string>> gather_composites(Graph& graph, const OpTable& ops);

}  // namespace meshwright
