#include "op_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "python_text.h"

namespace meshwright::torch {

namespace {

// How people write an op: {name} stands for an operand or an attribute, [..] is left out where the call does not have
// what it mentions. A form is taken if it mentions everything that the call says.
const std::map<std::string, const char*, std::less<>>& forms() {
  static const std::map<std::string, const char*, std::less<>> kForms = {
      {"aten.linear", "F.linear({input}, {weight}[, {bias}])"},
      {"aten.matmul", "{self} @ {other}"},
      {"aten.mm", "{self} @ {mat2}"},
      {"aten.bmm", "{self} @ {mat2}"},
      {"aten.addmm", "torch.addmm({self}, {mat1}, {mat2}[, beta={beta}][, alpha={alpha}])"},
      {"aten.add.Tensor", "{self} + {other}"},
      {"aten.add.Scalar", "{self} + {other}"},
      {"aten.sub.Tensor", "{self} - {other}"},
      {"aten.rsub.Scalar", "{other} - {self}"},
      {"aten.mul.Tensor", "{self} * {other}"},
      {"aten.mul.Scalar", "{self} * {other}"},
      {"aten.div.Tensor", "{self} / {other}"},
      {"aten.div.Scalar", "{self} / {other}"},
      {"aten.neg", "-{self}"},
      {"aten.pow.Tensor_Scalar", "{self}.pow({exponent})"},
      {"aten.exp", "{self}.exp()"},
      {"aten.sqrt", "{self}.sqrt()"},
      {"aten.rsqrt", "{self}.rsqrt()"},
      {"aten.tanh", "torch.tanh({self})"},
      {"aten.sigmoid", "torch.sigmoid({self})"},
      {"aten.cos", "{self}.cos()"},
      {"aten.sin", "{self}.sin()"},
      {"aten.eq.Scalar", "{self} == {other}"},
      {"aten.eq.Tensor", "{self} == {other}"},
      {"aten.ne.Scalar", "{self} != {other}"},
      {"aten.ne.Tensor", "{self} != {other}"},
      {"aten.lt.Scalar", "{self} < {other}"},
      {"aten.lt.Tensor", "{self} < {other}"},
      {"aten.le.Scalar", "{self} <= {other}"},
      {"aten.le.Tensor", "{self} <= {other}"},
      {"aten.gt.Scalar", "{self} > {other}"},
      {"aten.gt.Tensor", "{self} > {other}"},
      {"aten.ge.Scalar", "{self} >= {other}"},
      {"aten.ge.Tensor", "{self} >= {other}"},
      {"aten.bitwise_and.Tensor", "{self} & {other}"},
      {"aten.bitwise_or.Tensor", "{self} | {other}"},
      {"aten.__and__.Tensor", "{self} & {other}"},
      {"aten.__or__.Tensor", "{self} | {other}"},
      {"aten.bitwise_not", "~{self}"},
      {"aten.logical_not", "{self}.logical_not()"},
      {"aten.where.self", "torch.where({condition}, {self}, {other})"},
      {"aten.masked_fill.Scalar", "{self}.masked_fill({mask}, {value})"},
      {"aten.view", "{self}.reshape({size})"},
      {"aten.reshape", "{self}.reshape({shape})"},
      {"aten._unsafe_view", "{self}.reshape({size})"},
      {"aten.transpose.int", "{self}.transpose({dim0}, {dim1})"},
      {"aten.permute", "{self}.permute({dims})"},
      {"aten.t", "{self}.t()"},
      {"aten.unsqueeze", "{self}.unsqueeze({dim})"},
      {"aten.squeeze.dim", "{self}.squeeze({dim})"},
      {"aten.expand", "{self}.expand({size})"},
      {"aten.flatten.using_ints", "{self}.flatten({start_dim}[, {end_dim}])"},
      {"aten.select.int", "{self}.select({dim}, {index})"},
      {"aten.clone", "{self}.clone()"},
      {"aten.contiguous", "{self}.contiguous()"},
      {"aten.alias", "{self}"},
      {"aten.detach", "{self}.detach()"},
      {"aten.log", "{self}.log()"},
      {"aten.abs", "{self}.abs()"},
      {"aten.cat", "torch.cat({tensors}[, dim={dim}])"},
      {"aten.stack", "torch.stack({tensors}[, dim={dim}])"},
      {"aten.to.dtype", "{self}.to({dtype})"},
      {"aten._to_copy", "{self}.to({dtype})"},
      {"aten.mean", "{self}.mean()"},
      {"aten.mean.dim", "{self}.mean({dim}[, keepdim={keepdim}])"},
      {"aten.sum", "{self}.sum()"},
      {"aten.sum.dim_IntList", "{self}.sum({dim}[, keepdim={keepdim}])"},
      {"aten.relu", "F.relu({self})"},
      {"aten.gelu", "F.gelu({self}[, approximate={approximate}])"},
      {"aten.silu", "F.silu({self})"},
      {"aten.softmax.int", "F.softmax({self}, dim={dim}[, dtype={dtype}])"},
      {"aten.layer_norm", "F.layer_norm({input}, {normalized_shape}[, {weight}][, bias={bias}][, eps={eps}])"},
      {"aten.rms_norm", "F.rms_norm({input}, {normalized_shape}[, {weight}][, eps={eps}])"},
      {"aten.embedding", "F.embedding({indices}, {weight}[, padding_idx={padding_idx}])"},
      {"aten.scaled_dot_product_attention",
       "F.scaled_dot_product_attention({query}, {key}, {value}[, attn_mask={attn_mask}][, dropout_p={dropout_p}][, is_causal={is_causal}][, "
       "scale={scale}][, enable_gqa={enable_gqa}])"},
      {"aten.conv2d",
       "F.conv2d({input}, {weight}[, {bias}][, stride={stride}][, padding={padding}][, dilation={dilation}][, groups={groups}])"},
      {"aten.cross_entropy_loss",
       "F.cross_entropy({self}, {target}[, weight={weight}][, reduction={reduction}][, ignore_index={ignore_index}][, "
       "label_smoothing={label_smoothing}])"},
      {"aten.nll_loss_nd",
       "F.nll_loss({self}, {target}[, weight={weight}][, reduction={reduction}][, ignore_index={ignore_index}])"},
      {"aten.mse_loss", "F.mse_loss({self}, {target}[, reduction={reduction}])"},
      {"aten.zeros", "torch.zeros({size}[, dtype={dtype}], device=device())"},
      {"aten.ones", "torch.ones({size}[, dtype={dtype}], device=device())"},
      {"aten.full", "torch.full({size}, {fill_value}[, dtype={dtype}], device=device())"},
      {"aten.arange", "torch.arange({end}[, dtype={dtype}], device=device())"},
      {"aten.arange.start", "torch.arange({start}, {end}[, dtype={dtype}], device=device())"},
      {"aten.arange.start_step", "torch.arange({start}, {end}[, {step}][, dtype={dtype}], device=device())"},
  };
  return kForms;
}

// What PyTorch takes where a call says nothing, and what an op on local tensors need not be told.
bool is_default(const std::string& op, const std::string& attribute, const Attribute& value) {
  static const std::set<std::string, std::less<>> kOfNoConcern = {"device",        "layout",       "pin_memory", "implicit", "cudnn_enable",
                                                                  "memory_format", "non_blocking", "copy"};
  if (std::holds_alternative<std::monostate>(value)) return true;
  if (kOfNoConcern.contains(attribute)) return !(op == "aten.clone" && attribute == "memory_format") || value == Attribute(std::string("contiguous"));
  if (attribute == "padding_idx") return value == Attribute(std::int64_t{-1}) || value == Attribute();
  if (attribute == "alpha" || attribute == "beta") return value == Attribute(std::int64_t{1}) || value == Attribute(1.0);
  if (attribute == "approximate") return value == Attribute(std::string("none"));
  if (attribute == "groups") return value == Attribute(std::int64_t{1});
  if (attribute == "ignore_index") return value == Attribute(std::int64_t{-100});
  if (attribute == "end_dim") return value == Attribute(std::int64_t{-1});
  if (attribute == "reduction") return value == Attribute(std::int64_t{1});
  if (attribute == "label_smoothing" || attribute == "dropout_p") return value == Attribute(0.0);
  for (const char* flag : {"keepdim", "scale_grad_by_freq", "sparse", "is_causal", "enable_gqa", "half_to_float"}) {
    if (attribute == flag) return value == Attribute(false);
  }
  return false;
}

std::string attribute_text(const std::string& name, const Attribute& value, bool by_schema) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (name == "dtype") return named_dtype(*text);
    if (name == "memory_format") return memory_format(*text);
  }
  if (const auto* code = std::get_if<std::int64_t>(&value); code != nullptr && name == "reduction" && !by_schema) {
    return *code == 0 ? "\"none\"" : *code == 1 ? "\"mean\"" : "\"sum\"";
  }
  return literal(value);
}

class CallText {
 public:
  CallText(const Instruction& call, const ValueText& value) : call_(call) {
    for (const ProgramOperand& operand : call.operands) {
      const std::size_t dot = operand.name.rfind('.');
      const bool element = dot != std::string::npos && operand.name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
      if (!element) {
        texts_[operand.name] = value(operand.value);
        continue;
      }
      std::vector<std::string>& elements = lists_[operand.name.substr(0, dot)];
      elements.resize(std::stoul(operand.name.substr(dot + 1)) + 1, "None");  // what is absent is none
      elements.back() = value(operand.value);
    }
    for (const auto& [name, elements] : lists_) texts_[name] = list(elements);
    for (const auto& [name, attribute] : call.attributes) {
      if (!is_position(name) && !is_default(call.op, name, attribute)) said_.insert(name);
    }
  }

  // The form's text; empty if it leaves out something that the call says.
  std::string in_form(std::string_view form) const {
    std::set<std::string> mentioned;
    const std::string text = filled(form, mentioned);
    for (const std::string& name : said_) {
      if (!mentioned.contains(name)) return "";
    }
    for (const auto& [name, operand] : texts_) {
      if (!mentioned.contains(name)) return "";
    }
    return text;
  }

  std::string by_schema() const {
    std::vector<std::string> arguments;
    for (const auto& [name, text] : texts_) arguments.push_back(identifier(name) + "=" + text);
    for (const auto& [name, attribute] : call_.attributes) {
      if (said_.contains(name)) arguments.push_back(identifier(name) + "=" + attribute_text(name, attribute, true));
    }
    if (call_.operands.empty()) arguments.push_back("device=device()");
    std::string op = call_.op;
    if (std::count(op.begin(), op.end(), '.') == 1) op += ".default";
    return "torch.ops." + dotted_name(op) + "(" + join(arguments) + ")";
  }

  // "name(first, second, ...)": operands and attributes under these names, where the call has them, then `more`.
  std::string helper(const std::string& name, const std::vector<std::string>& positional, const std::vector<std::string>& named,
                     const std::vector<std::string>& more) const {
    std::vector<std::string> arguments;
    for (const std::string& each : positional) arguments.push_back(has(each) ? text(each) : "None");
    for (const std::string& each : named) {
      if (has(each)) arguments.push_back(each + "=" + text(each));
    }
    for (const std::string& each : more) {
      if (!each.empty()) arguments.push_back(each);
    }
    return name + "(" + join(arguments) + ")";
  }

 private:
  static bool is_position(const std::string& name) { return name.ends_with("_atoms") || name.ends_with("_extents") || name.ends_with("_starts"); }

  bool has(const std::string& name) const { return texts_.contains(name) || said_.contains(name); }

  std::string text(const std::string& name) const {
    const auto operand = texts_.find(name);
    return operand != texts_.end() ? operand->second : attribute_text(name, call_.attributes.at(name), false);
  }

  std::string filled(std::string_view form, std::set<std::string>& mentioned) const {
    std::string made;
    for (std::size_t at = 0; at < form.size();) {
      if (form[at] == '[') {
        const std::size_t end = form.find(']', at);
        const std::string_view inner = form.substr(at + 1, end - at - 1);
        const std::size_t open = inner.find('{');
        if (has(std::string(inner.substr(open + 1, inner.find('}') - open - 1)))) made += filled(inner, mentioned);
        at = end + 1;
      } else if (form[at] == '{') {
        const std::size_t end = form.find('}', at);
        const std::string name(form.substr(at + 1, end - at - 1));
        mentioned.insert(name);
        const auto attribute = call_.attributes.find(name);
        if (!texts_.contains(name) && attribute == call_.attributes.end()) made += "None";
        else made += texts_.contains(name) ? texts_.at(name) : attribute_text(name, attribute->second, false);
        at = end + 1;
      } else {
        made += form[at++];
      }
    }
    return made;
  }

  const Instruction& call_;
  std::map<std::string, std::vector<std::string>> lists_;
  std::map<std::string, std::string> texts_;  // of operands
  std::set<std::string> said_;                // attributes that are not what they are by default
};

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
bool draws(const std::string& op) {
  for (const char* beginning : {"aten.rand", "aten.bernoulli", "aten.exponential", "aten.normal", "aten.uniform", "aten.multinomial", "aten.rrelu", "aten.poisson"}) {
    if (op.starts_with(beginning)) return true;
  }
  return false;
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
  if (op == "aten.rand" || op == "aten.randn") {
    return text.helper(op.substr(5), {"size"}, {"dtype"}, {"stream=" + quoted(call.node), named("elements", positions(call, "elements"))});
  }
  if (is_nll(op) && call.rank_attributes.contains("classes_starts")) {
    return text.helper("nll_loss", {"self", "target"}, {"weight", "reduction", "ignore_index"}, {named("classes", positions(call, "classes"))});
  }
  if (op == "aten.one_hot" && call.rank_attributes.contains("classes_starts")) {
    return text.helper("one_hot", {"self"}, {"num_classes"}, {named("classes", positions(call, "classes"))});
  }
  if (op == "meshwright.experts") {
    return text.helper("experts", {"hidden", "indices", "weights", "gate_up", "down"}, {"activation"},
                       {named("experts", positions(call, "experts"))});
  }
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

}  // namespace

Result<std::string> op_text(const Instruction& call, const Program& program, const ValueText& value) {
  const CallText text(call, value);
  if (std::string made = by_prelude(call, text); !made.empty()) return made;
  if (!call.rank_attributes.empty()) return not_emitted(call, "its result depends on which part a rank has, and there is no function for that yet");
  if (draws(call.op)) return not_emitted(call, "the ranks would draw other numbers than one device, and there is no function for that yet");
  if (splits(call.op)) return split_text(call, program, value);
  if (call.op == "aten.slice.Tensor") return slice_text(call, program, value);
  if (const auto form = forms().find(call.op); form != forms().end()) {
    if (std::string made = text.in_form(form->second); !made.empty()) return made;
  }
  if (!call.op.starts_with("aten.")) return not_emitted(call, "PyTorch has no such op");
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
    return text.helper("experts", {"hidden", "indices", "weights", "gate_up", "down"}, {"activation"},
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
