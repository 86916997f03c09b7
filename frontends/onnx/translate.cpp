#include "translate.h"

#include <algorithm>
#include <stdexcept>

#include "fold.h"
#include "meshwright/log.h"
#include "onnx_types.h"

namespace meshwright::onnx {

namespace {

std::string shown(const ModelNode& node) {
  return node.name.empty() ? (node.outputs.empty() ? node.op : node.outputs[0]) : node.name;
}

bool is_uniform(const Literal& literal) {
  for (std::size_t i = 1; i < literal.size(); ++i) {
    if (literal.number(i) != literal.number(0)) return false;
  }
  return literal.size() > 0;
}

// 0, 2, 4, ...: one dimension that counts, the others of size 1.
bool is_progression(const Literal& literal) {
  if (literal.is_real() || literal.size() < 2 || literal.type.dtype == DType::boolean) return false;
  constexpr std::int64_t kLargest = std::int64_t{1} << 61;  // beyond it, what is computed of two might wrap around
  if (std::ranges::any_of(literal.integers, [](std::int64_t element) { return element < -kLargest || element > kLargest; })) return false;
  const std::int64_t step = literal.integers[1] - literal.integers[0];
  for (std::size_t i = 1; i < literal.size(); ++i) {
    if (literal.integers[i] - literal.integers[i - 1] != step) return false;
  }
  return step != 0 && std::ranges::count_if(literal.type.shape, [](std::int64_t size) { return size != 1; }) == 1;
}

}  // namespace

Translator::Translator(const Model& model, const Constants& constants, const Options& options)
    : model_(model), constants_(constants), options_(options) {
  for (const ModelValue& input : model.inputs) value_names_.insert(input.name);
  for (const ModelValue& output : model.outputs) value_names_.insert(output.name);
  for (const auto& [name, tensor] : model.initializers) value_names_.insert(name);
  for (const ModelNode& node : model.nodes) value_names_.insert(node.outputs.begin(), node.outputs.end());
}

Result<Graph> Translator::run(const OpenDimensions& open, const std::string& graph_name) {
  graph_.name = graph_name;
  if (Status status = add_inputs(open); !status) return status.error();
  for (const ModelNode& node : model_.nodes) {
    const std::string where =
        "node '" + shown(node) + "' (" + (node.domain.empty() ? "" : node.domain + "::") + node.op + ")";
    try {
      if (node.op == "Constant" && node.domain.empty()) continue;
      for (const std::string& output : node.outputs) {
        if (slots_.contains(output) && !output.empty())
          return bad_input(where + ": its result '" + output + "' is defined twice");
      }
      const bool known = !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](const std::string& output) {
        return constants_.literals.contains(output);
      });
      if (known || fold_node(node)) continue;
      translate(node);
    } catch (const Refusal& refusal) {
      return bad_input(where + ": " + refusal.sentence);
    } catch (const std::out_of_range&) {  // of a list or of integers
      return bad_input(where + ": one of its lists is too short, or one of its numbers too large");
    }
  }
  try {
    add_outputs();
  } catch (const Refusal& refusal) {
    return bad_input(refusal.sentence);
  }
  return std::move(graph_);
}

Result<TensorType> Translator::bound_type(const ModelValue& input, const OpenDimensions& open,
                                          std::set<std::string>& used) const {
  const std::string where = "input '" + input.name + "'";
  if (!input.type.problem.empty()) return bad_input(where + ": " + input.type.problem);
  if (!input.type.dtype || !input.type.shape)
    return bad_input(where + " has no shape in the file; run onnx.shape_inference over it, or export it again");
  TensorType type{*input.type.dtype, {}};
  for (std::size_t i = 0; i < input.type.shape->size(); ++i) {
    const Dimension& dimension = (*input.type.shape)[i];
    std::optional<std::int64_t> size;
    if (dimension.size >= 0)
      size = dimension.size;
    else if (const auto named = open.named.find(dimension.symbol); named != open.named.end()) {
      size = named->second;
      used.insert(dimension.symbol);
    } else if (i == 0 || is_batch(dimension.symbol))
      size = open.batch;
    if (!size) {
      const std::string symbol = dimension.symbol.empty() ? "without a name" : "'" + dimension.symbol + "'";
      const std::string remedy =
          i == 0 ? "--set model.batch=SIZE" +
                       (dimension.symbol.empty() ? "" : ", or --set model.dimensions=\"" + dimension.symbol + "=SIZE\"")
          : dimension.symbol.empty() ? std::string("a name or a size in the file")
                                     : "--set model.dimensions=\"" + dimension.symbol + "=SIZE\"";
      return bad_input(where + ": its dimension " + std::to_string(i) + ", " + symbol +
                       ", is open; give it a size with " + remedy);
    }
    type.shape.push_back(*size);
  }
  std::int64_t bytes = size_bytes(type.dtype);
  for (const std::int64_t size : type.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return bad_input(where + " has an impossibly large size");
  }
  return type;
}

// Whether an input begins with the open dimension of this name.
bool Translator::is_batch(const std::string& symbol) const {
  return !symbol.empty() && std::ranges::any_of(model_.inputs, [&](const ModelValue& input) {
    return input.type.shape && !input.type.shape->empty() && input.type.shape->front().size < 0 &&
           input.type.shape->front().symbol == symbol;
  });
}

Status Translator::add_inputs(const OpenDimensions& open) {
  std::set<std::string> used;
  for (const ModelValue& input : model_.inputs) {
    Result<TensorType> type = bound_type(input, open, used);
    if (!type) return type.error();
    is_closed_ &=
        std::ranges::all_of(*input.type.shape, [](const Dimension& dimension) { return dimension.size >= 0; });
    Slot& slot = slots_[input.name];
    slot.type = *type;
    slot.id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back({input.name, std::move(*type), kNoId, false});
    graph_.sources.push_back({SourceKind::user_input, slot.id, {input.name}});
  }
  for (const auto& [name, size] : open.named) {
    if (!used.contains(name))
      return bad_input("no input has an open dimension '" + name + "', which [model] dimensions gives the size " +
                       std::to_string(size));
  }
  return Done{};
}

// Whether the node's results follow from shapes and constants; they are then kept as literals.
bool Translator::fold_node(const ModelNode& node) {
  if (!node.domain.empty() || node.outputs.size() != 1) return false;
  std::optional<std::vector<Literal>> results;
  if ((node.op == "Shape" || node.op == "Size") && node.inputs.size() == 1) {
    const Shape& shape = type(node.inputs[0]).shape;
    Literal literal = list_literal(shape);
    if (node.op == "Size") {
      literal.integers = {product(shape)};
      literal.type.shape = {};
    } else {
      const auto rank = static_cast<std::int64_t>(shape.size());
      const Scope scope(*this, node);
      const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
      const std::int64_t start = place(scope.integer("start", 0)),
                         end = std::max(place(scope.integer("end", rank)), start);
      literal = list_literal({shape.begin() + start, shape.begin() + end});
    }
    results.emplace().push_back(std::move(literal));
  } else {
    std::vector<const Literal*> operands;
    for (const std::string& input : node.inputs) {
      operands.push_back(input.empty() ? nullptr : literal(input));
      if (!input.empty() && operands.back() == nullptr) return false;
    }
    results = fold(node, operands);
  }
  if (!results) return false;
  Slot& slot = slots_[node.outputs[0]];
  slot.type = (*results)[0].type;
  slot.literal = std::move((*results)[0]);
  slot.maker = &node;
  return true;
}

void Translator::translate(const ModelNode& node) {
  current_ = &node;
  first_of_current_ = static_cast<NodeId>(graph_.nodes.size());
  if (!node.domain.empty()) return pass_through(node);
  for (const auto& [name, attribute] : node.attributes) {
    if (std::holds_alternative<Subgraph>(attribute))
      throw Refusal{"it holds a graph of its own, and control flow is not supported; export the model without it"};
  }
  const auto found = translations().find(node.op);
  if (found == translations().end())
    throw Refusal{"'" + node.op + "' of opset " + std::to_string(model_.opset) + " is not supported"};
  Scope scope(*this, node);
  found->second(scope);
  for (const std::string& output : node.outputs) {
    if (!output.empty() && !slots_.contains(output)) throw Refusal{"its result '" + output + "' is not supported"};
  }
}

// An op of another domain keeps its name, so that an op family of that domain can serve it.
void Translator::pass_through(const ModelNode& node) {
  std::vector<TensorType> types;
  for (const std::string& output : node.outputs) {
    const auto found = model_.types.find(output);
    if (found == model_.types.end() || !found->second.dtype || !found->second.shape) {
      throw Refusal{"the file does not say the type of its result '" + output +
                    "', and nobody here knows the op; add it as value_info"};
    }
    TensorType& type = types.emplace_back(TensorType{*found->second.dtype, {}});
    for (const Dimension& dimension : *found->second.shape) {
      if (dimension.size < 0)
        throw Refusal{"its result '" + output + "' has the open dimension '" + dimension.symbol +
                      "' in the file, and nobody here knows the op"};
      type.shape.push_back(dimension.size);
    }
  }
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) operands.push_back({"input." + std::to_string(i), value(node.inputs[i])});
  }
  Attributes attributes;
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* integer = std::get_if<std::int64_t>(&attribute)) attributes[name] = *integer;
    if (const auto* number = std::get_if<double>(&attribute)) attributes[name] = *number;
    if (const auto* text = std::get_if<std::string>(&attribute)) {
      if (!is_text(*text))
        throw Refusal{"its attribute '" + name + "' holds bytes that are no text, which is not supported"};
      attributes[name] = *text;
    }
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) attributes[name] = *integers;
    if (const auto* numbers = std::get_if<std::vector<double>>(&attribute)) attributes[name] = *numbers;
  }
  const std::vector<ValueId> results = emit(node.domain + "::" + node.op, operands, std::move(attributes), types);
  Scope scope(*this, node);
  for (std::size_t i = 0; i < results.size(); ++i) scope.bind(i, results[i]);
}

void Translator::add_outputs() {
  std::vector<Output> mutations = std::move(graph_.outputs);
  graph_.outputs.clear();
  for (const ModelValue& output : model_.outputs) {
    const ModelNode returned{.op = "Identity",
                             .domain = "",
                             .name = output.name,
                             .module_path = "",
                             .inputs = {},
                             .outputs = {},
                             .attributes = {}};
    current_ = &returned;
    ValueId id = value(output.name);
    if (graph_.values[id].name != output.name || graph_.values[id].producer == kNoId) {
      id = emit("aten.alias", {{"self", id}}, {}, {graph_.type(id)})[0];
      graph_.values[id].name = output.name;
    }
    graph_.outputs.push_back({OutputKind::user_output, id, ""});
  }
  graph_.outputs.insert(graph_.outputs.end(), mutations.begin(), mutations.end());
}

Translator::Slot& Translator::slot(const std::string& name) {
  const auto found = slots_.find(name);
  if (found != slots_.end()) return found->second;
  const auto stored = constants_.stored.find(name);
  const auto known = constants_.literals.find(name);
  if (stored == constants_.stored.end() && known == constants_.literals.end())
    throw Refusal{"it uses '" + name + "', which nothing before it defines"};
  Slot& made = slots_[name];
  made.type = stored != constants_.stored.end() ? stored->second.type : known->second.type;
  return made;
}

const TensorType& Translator::type(const std::string& name) { return slot(name).type; }

const Literal* Translator::literal(const std::string& name) const {
  if (const auto constant = constants_.literals.find(name); constant != constants_.literals.end())
    return &constant->second;
  const auto found = slots_.find(name);
  return found != slots_.end() && found->second.literal ? &*found->second.literal : nullptr;
}

ValueId Translator::value(const std::string& name) {
  Slot& wanted = slot(name);
  if (wanted.id != kNoId) return wanted.id;
  ValueId id = kNoId;
  const bool held = constants_.stored.contains(name) || constants_.literals.contains(name);
  if (held) {
    id = source(name, wanted.type);
  } else if (wanted.literal) {
    id = generated(name, *wanted.literal);
  }
  if (id == kNoId) throw Refusal{"'" + name + "' is used before it is computed"};
  slots_.at(name).id = id;
  return id;
}

// What the file holds: classified as parameter, buffer or constant when the graph is whole (sources.cpp).
ValueId Translator::source(const std::string& name, const TensorType& type) {
  const auto twin = constants_.twins.find(name);
  if (twin != constants_.twins.end()) {
    const ValueId id = value(twin->second);
    for (Source& source : graph_.sources) {
      if (source.value == id) source.names.push_back(name);
    }
    return id;
  }
  TensorType stored = type;
  if (constants_.turned.contains(name)) std::swap(stored.shape[0], stored.shape[1]);
  const auto id = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({name, std::move(stored), kNoId, false});
  graph_.sources.push_back({SourceKind::constant, id, {name}});
  return id;
}

// A literal that follows from the sizes of inputs. It is in no file: where the file fixes those sizes it can be
// computed again and is a constant; else the graph makes it.
ValueId Translator::generated(const std::string& name, const Literal& literal) {
  const TensorType type = literal.type;
  const std::string dtype(meshwright::name(type.dtype));
  if (is_uniform(literal)) {
    Attributes attributes = {{"size", type.shape}, {"dtype", dtype}};
    if (literal.is_real())
      attributes["fill_value"] = literal.reals[0];
    else
      attributes["fill_value"] = literal.integers[0];
    return emit("aten.full", {}, std::move(attributes), {type})[0];
  }
  if (is_progression(literal)) {
    const std::int64_t step = literal.integers[1] - literal.integers[0], start = literal.integers[0];
    const auto count = static_cast<std::int64_t>(literal.size());
    const ValueId line = emit("aten.arange.start_step", {},
                              {{"start", start}, {"end", start + step * count}, {"step", step}, {"dtype", dtype}},
                              {TensorType{type.dtype, {count}}})[0];
    return type.rank() == 1 ? line : emit("aten.view", {{"self", line}}, {{"size", type.shape}}, {type})[0];
  }
  if (is_closed_) {
    computed_[name] = literal;
    return source(name, type);
  }
  const ModelNode* const outer = current_;
  const NodeId first = first_of_current_;
  translate(*slots_.at(name).maker);
  current_ = outer;
  first_of_current_ = first;
  return slots_.at(name).id;
}

std::string Translator::unique(std::string name) {
  std::string candidate = name;
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = name + "_" + std::to_string(i);
  return candidate;
}

std::vector<ValueId> Translator::emit(const std::string& op, const std::vector<Operand>& operands,
                                      Attributes attributes, const std::vector<TensorType>& results) {
  const auto id = static_cast<NodeId>(graph_.nodes.size());
  Node node;
  node.op = op;
  node.name = unique(shown(*current_));
  node.module_path = current_->module_path;
  for (const Operand& operand : operands) {
    if (operand.value != kNoId) node.operands.push_back(operand);
  }
  node.attributes = std::move(attributes);
  for (const TensorType& type : results) {
    std::int64_t bytes = size_bytes(type.dtype);
    for (const std::int64_t size : type.shape) {
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
        throw Refusal{"its result would be of a negative or an impossibly large size"};
    }
    std::string name = node.name + (results.size() > 1 ? "." + std::to_string(node.results.size()) : "");
    while (!value_names_.insert(name).second) name += '_';
    node.results.push_back(static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back({std::move(name), type, id, false});
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().results;
}

}  // namespace meshwright::onnx
