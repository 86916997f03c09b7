#include "op_text.h"

#include <algorithm>

#include "call_text.h"
#include "op_forms.h"
#include "python_text.h"

namespace meshwright::torch {

namespace {

std::string named(const char* name, const std::string& text) { return text.empty() ? "" : std::string(name) + "=" + text; }

// The attribute "dim", counted from the front.
std::int64_t dimension_of(const Instruction& call, const Program& program) {
  const std::int64_t dim = node_of(call).integer("dim", 0);
  return dim < 0 ? dim + program.type(call.operands[0].value).type.rank() : dim;
}

// x[:, 2:5] for aten.slice.Tensor.
std::string slice_text(const Instruction& call, const Program& program, const ValueText& value) {
  const Node node = node_of(call);
  const std::int64_t dim = dimension_of(call, program);
  const std::int64_t start = node.integer("start", 0), end = node.integer("end", INT64_MAX), step = node.integer("step", 1);
  std::string index;
  for (std::int64_t i = 0; i < dim; ++i) index += ":, ";
  index += (start != 0 ? std::to_string(start) : "") + ":" + (end != INT64_MAX ? std::to_string(end) : "");
  if (step != 1) index += ":" + std::to_string(step);
  return value(call.operands[0].value) + "[" + index + "]";
}

// What is copied, in the shape and type of what it is copied over: PyTorch's functional copy has no derivative.
std::string copy_text(const Instruction& call, const Program& program, const ValueText& value) {
  const TensorType& result = program.local(call.results[0]);
  for (const ProgramOperand& operand : call.operands) {
    if (operand.name != "src") continue;
    const TensorType& source = program.local(operand.value);
    std::string text = value(operand.value);
    if (source.dtype != result.dtype) text += ".to(" + dtype(result.dtype) + ")";
    return source.shape == result.shape ? text : text + ".expand(" + tuple(result.shape) + ")";
  }
  return "";
}

const std::vector<std::string> kExpertOptions = {"gate_up_bias", "activation", "in_first", "interleaved", "alpha", "limit"};

// Recurrent layers, on as many examples as this rank has.
std::string recurrent_text(const Instruction& call, const CallText& text) {
  const Node node = node_of(call);
  const std::string cell = node.text("cell", "");
  const auto truth = [&](const char* name) { return std::string(node.boolean(name, false) ? "True" : "False"); };
  return "torch." + std::string(cell == "tanh" || cell == "relu" ? "rnn_" : "") + cell + "(" + text.text_of("input") + ", " +
         (cell == "lstm" ? "(" + text.text_of("hx") + ", " + text.text_of("cx") + ")" : text.text_of("hx")) + ", " + text.text_of("params") +
         ", has_biases=" + truth("has_biases") + ", num_layers=" + std::to_string(node.integer("num_layers", 1)) +
         ", dropout=0.0, train=" + truth("train") + ", bidirectional=" + truth("bidirectional") + ", batch_first=" + truth("batch_first") + ")";
}

// Ops that return a list of tensors, even if it has one element.
bool returns_list(const std::string& op) {
  for (const char* beginning : {"aten.split", "aten.chunk", "aten.unbind", "aten.tensor_split", "aten.meshgrid", "aten.broadcast_tensors",
                                "aten.unsafe_split", "aten.unsafe_chunk", "aten.hsplit", "aten.vsplit", "aten.dsplit"}) {
    if (op.starts_with(beginning)) return true;
  }
  return false;
}

bool splits(const std::string& op) { return op.starts_with("aten.split") || op == "aten.chunk"; }

// The pieces' sizes are those on one rank, which attributes repeat for the whole tensor.
std::string split_text(const Instruction& call, const Program& program, const ValueText& value) {
  const std::int64_t dim = dimension_of(call, program);
  std::vector<std::string> sizes;
  for (const ProgramValueId result : call.results) sizes.push_back(std::to_string(program.local(result).shape[static_cast<std::size_t>(dim)]));
  return value(call.operands[0].value) + ".split(" + list(sizes) + ", dim=" + std::to_string(dim) + ")";
}

bool is_nll(const std::string& op) { return op == "aten.nll_loss_nd" || op == "aten.nll_loss"; }

// Ops whose numbers PyTorch draws on each rank anew, where they must be those of one device.
bool draws(const Instruction& call) {
  static constexpr const char* kBeginnings[] = {
      "aten.rand", "aten.bernoulli", "aten.exponential", "aten.normal", "aten.uniform", "aten.multinomial", "aten.rrelu", "aten.poisson", "aten.binomial",
      "aten.log_normal", "aten.cauchy", "aten.geometric", "aten._sample_dirichlet", "aten._standard_gamma", "aten.alpha_dropout", "aten.feature_dropout",
      "aten.feature_alpha_dropout"};
  const auto begins = [&](const char* beginning) { return call.op.starts_with(beginning); };
  if (std::any_of(std::begin(kBeginnings), std::end(kBeginnings), begins)) return true;
  const Node node = node_of(call);
  const bool is_recurrent = begins("aten.lstm.") || begins("aten.gru.") || begins("aten.rnn_");
  return is_recurrent && node.number("dropout", 0) != 0 && node.boolean("train", false);  // between its layers
}

// Random numbers of the prelude, which are those of the global elements that are here. Empty: no op that has them.
std::string drawn_text(const Instruction& call, const Program& program, const ValueText& value) {
  const std::string& op = call.op;
  if (!draws(call) || call.results.size() != 1) return "";
  const Node node = node_of(call);
  const ShardedType& type = program.type(call.results[0]);
  const TensorType local = program.local(call.results[0]);
  const std::string elements = positions(call, "elements");
  if (elements.empty() && local.shape != type.type.shape) return "";
  const std::string stream = "stream=" + quoted(call.node) + (elements.empty() ? "" : ", elements=" + elements);
  const std::string made = ", dtype=" + dtype(local.dtype), size = tuple(local.shape);
  const auto real = [&](const char* name, double otherwise) { return number(node.number(name, otherwise)); };
  const auto is = [&](const char* beginning) { return op.starts_with(beginning); };
  if (is("aten.randint")) {
    return "randint(" + std::to_string(node.integer("low", 0)) + ", " + std::to_string(node.integer("high", 1)) + ", " + size + ", " + stream + made + ")";
  }
  if (is("aten.randperm")) return "rand(" + size + ", " + stream + ", dtype=torch.float64).argsort(stable=True)" + (local.dtype == DType::int64 ? "" : ".to(" + dtype(local.dtype) + ")");
  if (is("aten.randn")) return "randn(" + size + ", " + stream + made + ")";
  if (is("aten.rand")) return "rand(" + size + ", " + stream + made + ")";
  if (op == "aten.uniform") return "rand(" + size + ", " + stream + made + ", low=" + real("from", 0) + ", high=" + real("to", 1) + ")";
  if (op == "aten.normal_functional") return "randn(" + size + ", " + stream + made + ", mean=" + real("mean", 0) + ", std=" + real("std", 1) + ")";
  if (op == "aten.exponential") return "exponential(" + size + ", " + stream + made + ", lambd=" + real("lambd", 1) + ")";
  if (op == "aten.bernoulli.p") return "(rand(" + size + ", " + stream + ", dtype=torch.float64) < " + real("p", 0.5) + ").to(" + dtype(local.dtype) + ")";
  if (op == "aten.bernoulli" && call.operands.size() == 1) return "bernoulli(" + value(call.operands[0].value) + ", " + stream + ")";
  return "";
}

bool is_dropout(const std::string& op) { return op == "aten.dropout" || op == "aten.native_dropout"; }

// What eval mode turns off.
bool is_on(const Node& node) {
  if (is_dropout(node.op)) return node.boolean("train", true) && node.number("p", 0.5) > 0;
  if (node.op == "aten.scaled_dot_product_attention") return node.number("dropout_p", 0) > 0;
  return is_batch_norm(node.op) && !node.op.ends_with("no_training") && node.boolean("training", true);
}

// Of dropout or a batch norm; one of those without running statistics takes the batch's in either mode.
std::string mode_argument(const Node& node) {
  return std::string("training=") + (follows_mode(node) ? "self.training" : is_on(node) ? "True" : "False");
}

std::string batch_norm_text(const Instruction& call, const CallText& text, const std::string& axes) {
  return text.helper("batch_norm", {"input", "weight", "bias", "running_mean", "running_var"}, {"momentum", "eps"},
                     {mode_argument(node_of(call)), axes});
}

// Ops that the prelude computes, since they depend on where a rank's part lies or on the mode, or draw random numbers; empty:
// none such.
std::string by_prelude(const Instruction& call, const CallText& text) {
  const std::string& op = call.op;
  const Node node = node_of(call);
  if (op == "aten.embedding" && call.rank_attributes.contains("rows_starts")) {
    return text.helper("embedding", {"weight", "indices"}, {"padding_idx"}, {named("rows", positions(call, "rows"))});
  }
  if (op == "aten.scaled_dot_product_attention") {
    const std::string queries = positions(call, "queries"), rows = positions(call, "rows");
    const bool drops = node.number("dropout_p", 0) > 0;
    if (queries.empty() && rows.empty() && !drops) return "";
    return text.helper("scaled_dot_product_attention", {"query", "key", "value"}, {"attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"},
                       {named("queries", queries), named("rows", rows), drops ? mode_argument(node) : "",
                        drops ? "stream=" + quoted(call.node) : ""});
  }
  if (is_dropout(op)) {
    return text.helper(op.substr(5), {"input"}, {"p"},
                       {mode_argument(node), "stream=" + quoted(call.node), named("elements", positions(call, "elements"))});
  }
  if (is_batch_norm(op)) return batch_norm_text(call, text, "");
  if (op.starts_with("aten.arange") && call.rank_attributes.contains("positions_starts")) {
    return text.helper("arange", {}, {"end", "start", "step", "dtype"}, {named("here", positions(call, "positions"))});
  }
  if (op == "aten.tril" || op == "aten.triu") {
    const std::string rows = positions(call, "rows"), columns = positions(call, "columns");
    if (rows.empty() && columns.empty()) return "";
    return text.helper(op.substr(5), {"self"}, {"diagonal"}, {named("rows", rows), named("columns", columns)});
  }
  if (op == "aten.eye" || op == "aten.eye.m") {
    const std::string rows = positions(call, "rows"), columns = positions(call, "columns");
    if (!rows.empty() || !columns.empty()) return text.helper("eye", {"n"}, {"m", "dtype"}, {named("rows", rows), named("columns", columns)});
  }
  if (is_nll(op) && call.rank_attributes.contains("classes_starts")) {
    return text.helper("nll_loss", {"self", "target"}, {"weight", "reduction", "ignore_index"}, {named("classes", positions(call, "classes"))});
  }
  if (op == "aten.one_hot" && call.rank_attributes.contains("classes_starts")) {
    return text.helper("one_hot", {"self"}, {"num_classes"}, {named("classes", positions(call, "classes"))});
  }
  if (op == "meshwright.experts") {
    return text.helper("experts", {"hidden", "indices", "weights", "gate_up", "down"}, kExpertOptions,
                       {named("experts", positions(call, "experts"))});
  }
  if (op == "meshwright.recurrent") return recurrent_text(call, text);
  if (op == "meshwright_function.call" || op == "meshwright_function.pointwise") return "function(" + quoted(node.text("name", "")) + ", *" + text.text_of("tensors") + ")";
  return "";
}

Error not_emitted(const Instruction& call, const std::string& why) {
  return bad_input("node '" + call.name + "' (" + call.op + ") can't be written as PyTorch: " + why);
}

// The mesh axes whose places on `layout` the predicate wants.
template <class Wanted>
std::vector<std::int64_t> axes_where(const Mesh& mesh, const Layout& layout, Wanted wanted) {
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if (wanted(layout[axis])) axes.push_back(static_cast<std::int64_t>(axis));
  }
  return axes;
}

std::string axes_argument(const char* name, const std::vector<std::int64_t>& axes) {
  return axes.empty() ? "" : std::string(name) + "=" + tuple(axes);
}

// Those along which the steps communicate, in the order in which they first do.
std::vector<std::int64_t> moved_axes(const std::vector<Instruction>& steps) {
  std::vector<std::int64_t> axes;
  for (const Instruction& step : steps) {
    const bool known = std::find(axes.begin(), axes.end(), step.move.axis) != axes.end();
    if (step.kind == InstructionKind::move && !known) axes.push_back(step.move.axis);
  }
  return axes;
}

// Whether a placement cuts the classes of `scores` [n, c, ...] or [c].
auto cuts_classes(const ShardedType& scores) {
  return [&scores](Placement placement) {
    return placement.is_shard() && scores.atoms.dimension_of(placement.atom()) == (scores.type.rank() > 1 ? 1U : 0U);
  };
}

const ShardedType* operand_type(const Instruction& call, const Program& program, std::string_view name) {
  for (const ProgramOperand& operand : call.operands) {
    if (operand.name == name) return &program.type(operand.value);
  }
  return nullptr;
}

// PyTorch's own random numbers: where every rank draws all of them, their generators are seeded alike.
Result<std::string> drawn_alike(const Instruction& call, const Program& program, const CallText& text) {
  const auto is_whole = [&](ProgramValueId value) { return value == kNoId || program.local(value).shape == program.type(value).type.shape; };
  bool whole = std::all_of(call.results.begin(), call.results.end(), is_whole);
  for (const ProgramOperand& operand : call.operands) whole = whole && is_whole(operand.value);
  if (!whole) return not_emitted(call, "the ranks would draw other numbers than one device, and there is no function for that yet");
  return "drawn_alike(lambda: " + text.by_schema() + ", stream=" + quoted(call.node) + ")";
}

}  // namespace

Result<std::string> op_text(const Instruction& call, const Program& program, const ValueText& value) {
  const CallText text(call, value);
  if (std::string made = drawn_text(call, program, value); !made.empty()) return made;
  if (returns_list(call.op) && call.results.size() == 1) {
    return (splits(call.op) ? split_text(call, program, value) : text.by_schema()) + "[0]";
  }
  if (std::string made = by_prelude(call, text); !made.empty()) return made;
  if (!call.rank_attributes.empty()) return not_emitted(call, "its result depends on which part a rank has, and there is no function for that yet");
  if (draws(call)) return drawn_alike(call, program, text);
  if (splits(call.op)) return split_text(call, program, value);
  if (call.op == "aten.slice.Tensor") return slice_text(call, program, value);
  if (call.op == "aten.copy") return copy_text(call, program, value);
  if (const std::string_view form = form_of(call.op); !form.empty()) {
    if (std::string made = text.in_form(form); !made.empty()) return made;
  }
  if (call.op.starts_with("meshwright.") || call.op.find('.') == std::string::npos) return not_emitted(call, "PyTorch has no such op");
  return text.by_schema();
}

bool is_batch_norm(const std::string& op) {
  return op.starts_with("aten._native_batch_norm") || op.starts_with("aten.batch_norm") || op.starts_with("aten.native_batch_norm");
}

bool follows_mode(const Node& node) {
  return is_on(node) && (!is_batch_norm(node.op) || node.operand_index("running_mean"));
}

bool are_plain(const std::vector<Instruction>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const Instruction& step) {
    return step.kind == InstructionKind::compute && step.op.starts_with("aten.");
  });
}

Result<std::string> steps_text(const Instruction& whole, const std::vector<Instruction>& steps, const Program& program,
                               const ValueText& value) {
  const Mesh& mesh = program.mesh;
  const CallText text(whole, value);
  const std::string& op = whole.op;
  if (op == "aten.cross_entropy_loss") {
    const ShardedType& logits = *operand_type(whole, program, "self");
    const auto is_class = cuts_classes(logits);
    const auto is_position = [&](Placement placement) { return placement.is_shard() && !is_class(placement); };
    return text.helper("cross_entropy", {"self", "target"}, {"weight", "reduction", "ignore_index", "label_smoothing"},
                       {axes_argument("class_axes", axes_where(mesh, logits.layout, is_class)),
                        axes_argument("position_axes", axes_where(mesh, logits.layout, is_position)),
                        named("classes", positions(steps.front(), "classes"))});
  }
  if (is_nll(op)) {
    const ShardedType &target = *operand_type(whole, program, "target"), &scores = *operand_type(whole, program, "self");
    return text.helper("nll_loss", {"self", "target"}, {"weight", "reduction", "ignore_index"},
                       {axes_argument("class_axes", axes_where(mesh, scores.layout, cuts_classes(scores))),
                        axes_argument("position_axes", axes_where(mesh, target.layout, [](Placement p) { return p.is_shard(); })),
                        named("classes", positions(steps.front(), "classes"))});
  }
  if (is_batch_norm(op)) return batch_norm_text(whole, text, axes_argument("axes", moved_axes(steps)));
  if (op == "meshwright.experts") {
    const auto rows = std::find_if(steps.begin(), steps.end(), [](const Instruction& step) { return step.op == "meshwright.experts_rows"; });
    const auto dispatch = steps.begin();
    std::string capacity;
    if (!dispatch->results.empty()) {
      const TensorType& buffer = program.type(dispatch->results[1]).type;
      capacity = "capacity=" + std::to_string(buffer.shape.back());
    }
    const auto destinations = dispatch->attributes.find("destinations");
    return text.helper("experts", {"hidden", "indices", "weights", "gate_up", "down"}, kExpertOptions,
                       {rows != steps.end() ? named("experts", positions(*rows, "experts")) : "", axes_argument("exchanged", moved_axes(steps)), capacity,
                        destinations != dispatch->attributes.end() ? "destinations=" + literal(destinations->second) : ""});
  }
  if (op.ends_with("amax") || op.ends_with("amin") || op == "aten.max" || op == "aten.min") {
    const bool smallest = op.ends_with("min");
    return text.helper("extremum", {"self"}, {"dim", "keepdim"}, {axes_argument("axes", moved_axes(steps)), smallest ? "largest=False" : ""});
  }
  return not_emitted(whole, "sharded as planned it takes several steps, and there is no function for them yet");
}

}  // namespace meshwright::torch
