#include "meshwright/op.h"

#include <algorithm>

#include "tensor/guarded.h"

namespace meshwright {

OpCall make_call(const Graph& graph, const Node& node) {
  OpCall call{node, {}, {}};
  for (const Operand& operand : node.operands) call.operands.push_back(graph.type(operand.value));
  for (const ValueId result : node.results) call.results.push_back(graph.type(result));
  return call;
}

bool has_complex(const OpCall& call) {
  const auto is_of_pairs = [](const TensorType& type) { return is_complex(type.dtype); };
  return std::ranges::any_of(call.operands, is_of_pairs) || std::ranges::any_of(call.results, is_of_pairs);
}

Status check_results(const OpCall& call, std::span<const Tensor> results) {
  if (results.size() != call.results.size()) return plugin_failed("a result is missing");
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].type() != call.results[i]) return plugin_failed("result " + std::to_string(i) + " has another type");
    for (std::size_t k = 0; k < call.memory.size(); ++k) {
      const bool has_bytes = !call.memory[k].empty() && !results[i].bytes().empty();
      if (k != i && has_bytes && results[i].bytes().data() == call.memory[k].data()) {
        return plugin_failed("result " + std::to_string(i) + " lies in the memory of result " + std::to_string(k));
      }
    }
  }
  return Done{};
}

OpFamily::~OpFamily() = default;
OpTable::~OpTable() = default;

namespace {

std::string name_of(const OpCall& call) { return call.node.op + " at '" + call.node.name + "'"; }

template <class Body>
auto guard(const OpCall& call, Body body) -> decltype(body()) {
  return guarded([&] { return name_of(call) + ": the op family"; }, body);
}

// Families index by the dimensions that an ATen op names: a file may say any number.
Status check_dimensions(const Node& node, std::int64_t rank) {
  if (!node.op.starts_with("aten.") || node.op == "aten.tile") return Done{};  // whose "dims" are repetitions
  for (const char* attribute : {"dim", "dims", "dim0", "dim1", "dimension"}) {
    const auto found = node.attributes.find(attribute);
    if (found == node.attributes.end()) continue;
    const auto* single = std::get_if<std::int64_t>(&found->second);
    for (const std::int64_t dim : single ? std::vector{*single} : node.integers(attribute)) {
      if (dim >= -std::max<std::int64_t>(rank, 1) && dim < std::max<std::int64_t>(rank, 1)) continue;
      return bad_input("'" + std::string(attribute) + "' is " + std::to_string(dim) + ", but its tensors have " + std::to_string(rank) +
                       " dimensions");
    }
  }
  return Done{};
}

// With the rank of the operand or result that has the most.
Status check_dimensions(const OpCall& call) {
  std::int64_t rank = 0;
  for (const TensorType& type : call.operands) rank = std::max(rank, type.rank());
  for (const TensorType& type : call.results) rank = std::max(rank, type.rank());
  if (Status status = check_dimensions(call.node, rank); !status) {
    return add_context(call.node.op + " at '" + call.node.name + "'", status.error());
  }
  return Done{};
}

}  // namespace

Result<Rule> OpFamily::rule(const OpCall& call) const {
  return guard(call, [&]() -> Result<Rule> {
    if (Status status = check_dimensions(call); !status) return status.error();
    Result<Rule> rule = do_rule(call);
    if (!rule) {
      // A rule's text that does not fit these shapes, which PyTorch allows: the call runs replicated, and the plan says so.
      Error error = add_context(call.node.op + " at '" + call.node.name + "'", rule.error());
      if (error.code == ErrorCode::internal) error.code = ErrorCode::bad_input;
      return error;
    }
    if (Status status = validate(*rule, call.operands, call.results); !status) {
      return plugin_failed(call.node.op + " at '" + call.node.name + "': " + status.error().message);
    }
    return rule;
  });
}

Result<OpCost> OpFamily::cost(const OpCall& call, const Rule& rule) const {
  return guard(call, [&]() -> Result<OpCost> {
    Result<OpCost> cost = do_cost(call, rule);
    if (!cost) return add_context(call.node.op + " at '" + call.node.name + "'", cost.error());
    for (const WorkTerm& term : cost->forward) {
      for (const FactorId factor : term.factors) {
        if (factor >= rule.factors.size()) return plugin_failed(call.node.op + ": a work term names an unknown factor");
      }
    }
    return cost;
  });
}

Result<std::vector<ValueId>> OpFamily::gradient(const GradientCall& call) const {
  const std::string where = call.node.op + " at '" + call.node.name + "'";
  return guarded([&] { return where + ": the op family"; }, [&]() -> Result<std::vector<ValueId>> {
    std::int64_t rank = 0;
    for (const Operand& operand : call.node.operands) rank = std::max(rank, call.type(operand.value).rank());
    for (const ValueId result : call.node.results) rank = std::max(rank, call.type(result).rank());
    if (Status status = check_dimensions(call.node, rank); !status) return add_context(where, status.error());
    Result<std::vector<ValueId>> gradients = do_gradient(call);
    if (!gradients) return add_context(where, gradients.error());
    if (gradients->size() != call.node.operands.size()) return plugin_failed(where + ": one gradient is needed for each operand");
    for (std::size_t i = 0; i < gradients->size(); ++i) {
      if ((*gradients)[i] == kNoId) continue;
      const TensorType& wanted = call.type(call.node.operands[i].value);
      if (call.type((*gradients)[i]) != wanted) {
        return plugin_failed(where + ": the gradient of '" + call.node.operands[i].name + "' is " +
                             to_string(call.type((*gradients)[i])) + ", but the operand is " + to_string(wanted));
      }
    }
    return gradients;
  });
}

Result<std::vector<ValueId>> OpFamily::do_gradient(const GradientCall&) const {
  return bad_input("its op family states no gradient");
}

namespace {

// What a Tensor can be computed with (tensor.h).
Status check_computed(const TensorType& type) {
  switch (type.dtype) {
    case DType::float16:
    case DType::bfloat16:
    case DType::complex64:
    case DType::complex128: return bad_input(std::string(name(type.dtype)) + " is not computed here");
    default: return Done{};
  }
}

}  // namespace

Result<std::vector<Tensor>> OpFamily::evaluate(const OpCall& call, std::span<const Tensor* const> operands) const {
  return guard(call, [&]() -> Result<std::vector<Tensor>> {
    const std::string where = call.node.op + " at '" + call.node.name + "'";
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (operands[i]->type() != call.operands[i]) return internal_error(where + ": operand " + std::to_string(i) + " has another type");
      if (Status status = check_computed(call.operands[i]); !status) return add_context(where, status.error());
    }
    for (const TensorType& result : call.results) {
      if (Status status = check_computed(result); !status) return add_context(where, status.error());
    }
    if (Status status = check_dimensions(call); !status) return status.error();
    Result<std::vector<Tensor>> results = do_evaluate(call, operands);
    if (!results) return add_context(where, results.error());
    if (Status status = check_results(call, *results); !status) return add_context(where, status.error());
    return results;
  });
}

Result<std::vector<Tensor>> OpFamily::do_evaluate(const OpCall&, std::span<const Tensor* const>) const {
  return bad_input("its op family does not compute it");
}

Result<FoundComposites> OpFamily::find_composites(const Graph& graph) const {
  return guarded([] { return std::string("looking for composite ops: the op family"); },
                 [&]() -> Result<FoundComposites> { return do_find_composites(graph); });
}

FoundComposites OpFamily::do_find_composites(const Graph&) const { return {}; }

}  // namespace meshwright
