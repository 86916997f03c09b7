#include "translate.h"

#include <cctype>

#include "meshwright/log.h"
#include "tied.h"

namespace meshwright::torch_export {

namespace {

// Checks of the export itself: they compute nothing. What the functional ones return is only read by each other.
bool is_without_effect(std::string_view op) {
  return op.starts_with("aten._assert_") || op.starts_with("aten._functional_assert_") ||
         op.starts_with("aten.sym_constrain_range");
}

// Whether an expression has one of the symbols u0, u1, ... that torch.export gives to what the data decides; those of
// dynamic dimensions are s0, s1, ...
bool depends_on_data(std::string_view expression) {
  const auto is_word = [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_'; };
  for (std::size_t i = 0; i + 1 < expression.size(); ++i) {
    if (expression[i] == 'u' && std::isdigit(static_cast<unsigned char>(expression[i + 1])) &&
        (i == 0 || !is_word(expression[i - 1]))) {
      return true;
    }
  }
  return false;
}

Error open_shape(const std::string& value, const std::string& symbol) {
  const bool unbacked = depends_on_data(symbol);
  return bad_input("value '" + value + "' has the size '" + symbol + "', which " +
                   (unbacked ? "depends on the data; every shape must be a fixed number, so export without operations such as "
                               "nonzero, item or a boolean mask"
                             : "was left open as a dynamic dimension, and nothing says how large it is; export with dynamic "
                               "dimensions of the inputs alone, or without dynamic_shapes"));
}

SourceKind source_kind(InputSpec::Kind kind) {
  switch (kind) {
    case InputSpec::Kind::parameter:
      return SourceKind::parameter;
    case InputSpec::Kind::buffer:
      return SourceKind::buffer;
    case InputSpec::Kind::constant:
      return SourceKind::constant;
    default:
      return SourceKind::user_input;
  }
}

class Translator {
 public:
  Translator(const ExportedProgram& program, const Archive& archive)
      : program_(program), archive_(archive), used_(used_values(program)) {}

  Result<Graph> run(const std::string& graph_name) {
    graph_.name = graph_name;
    for (const auto step : {&Translator::add_sources, &Translator::add_nodes, &Translator::add_outputs}) {
      if (Status status = (this->*step)(); !status) return status.error();
    }
    mark_gradients(graph_);
    mark_loss();
    return std::move(graph_);
  }

 private:
  Result<ValueId> add_value(const std::string& name, NodeId producer) {
    const auto tensor = program_.tensors.find(name);
    if (tensor == program_.tensors.end()) return bad_input("value '" + name + "' has no type in the file");
    auto type = type_of(name, tensor->second);
    if (!type) return type.error();
    const auto id = static_cast<ValueId>(graph_.values.size());
    if (!ids_.emplace(name, id).second) return bad_input("value '" + name + "' is defined twice");
    graph_.values.push_back({name, std::move(*type), producer, false});
    return id;
  }

  Status add_sources() {
    std::vector<const InputSpec*> unused;
    for (const InputSpec& input : program_.inputs) {
      if (input.kind == InputSpec::Kind::other || input.value.empty()) continue;  // a number or a token
      if (!used_.contains(input.value)) {
        unused.push_back(&input);
        continue;
      }
      auto value = add_value(input.value, kNoId);
      if (!value) return value.error();
      // A user's input too, if the sample wanted its gradient: what is in front of the model is trained through it.
      const SourceKind kind = source_kind(input.kind);
      Value& added = graph_.values[*value];
      added.requires_gradient = (kind == SourceKind::parameter || kind == SourceKind::user_input) &&
                                program_.tensors.at(input.value).requires_gradient && is_floating(added.type.dtype);
      graph_.sources.push_back({source_kind(input.kind), *value, {input.target.empty() ? input.value : input.target}});
    }
    return merge_tied(unused);
  }

  // Needs the weights' configuration only if something is unused, which is rare; so it is parsed only then.
  Status merge_tied(const std::vector<const InputSpec*>& unused) {
    if (unused.empty()) return Done{};
    auto places = parse_weights(archive_.weights);
    if (!places) return places.error();
    const TiedWeights tied(std::move(*places), archive_.payloads);
    std::vector<std::string> used_parameters;
    for (const Source& source : graph_.sources) {
      if (source.kind == SourceKind::parameter) used_parameters.push_back(source.names.front());
    }
    for (const InputSpec* input : unused) {
      const std::string& name = input->target.empty() ? input->value : input->target;
      const auto twin = input->kind == InputSpec::Kind::parameter ? tied.find(name, used_parameters) : std::nullopt;
      if (!twin) {
        log(LogLevel::warning, "torch_export", "input '" + name + "' is never used and was left out");
        continue;
      }
      for (Source& source : graph_.sources) {
        if (source.kind == SourceKind::parameter && source.names.front() == *twin) source.names.push_back(name);
      }
    }
    return Done{};
  }

  Status add_nodes() {
    for (const ExportedNode& exported : program_.nodes) {
      std::string op = op_name(exported.target);
      if (is_without_effect(op)) continue;
      Node node;
      node.op = std::move(op);
      node.name = exported.name;
      node.module_path = innermost_module(exported.module_stack);
      if (Status status = add_node(exported, std::move(node)); !status) {
        return add_context("node '" + exported.name + "'", status.error());
      }
    }
    return Done{};
  }

  Status add_node(const ExportedNode& exported, Node node) {
    if (Status status = check_target(exported.target); !status) return status;
    for (const Argument& input : exported.inputs) {
      if (Status status = add_argument(input, node); !status) return status;
    }
    const auto id = static_cast<NodeId>(graph_.nodes.size());
    for (const ArgumentValue& output : exported.outputs) {
      if (Status status = add_results(output, id, node); !status) return status;
    }
    if (node.name.empty()) {
      if (node.results.empty()) return bad_input("'" + node.op + "' has neither a name nor a result");
      node.name = graph_.values[node.results.front()].name;
    }
    graph_.nodes.push_back(std::move(node));
    return Done{};
  }

  Status add_operand(const std::string& name, const std::string& value, Node& node) {
    const auto id = ids_.find(value);
    if (id == ids_.end())
      return bad_input("argument '" + name + "' uses '" + value + "', which nothing before it defines");
    node.operands.push_back({name, id->second});
    return Done{};
  }

  Error open_number(const std::string& value, const std::string& number) const {
    const auto expression = program_.numbers.find(number);
    return open_shape(value, expression == program_.numbers.end() ? number : expression->second);
  }

  Status add_argument(const Argument& input, Node& node) {
    if (const auto* attribute = std::get_if<Attribute>(&input.value)) {
      node.attributes.insert_or_assign(input.name, *attribute);
      return Done{};
    }
    if (const auto* tensor = std::get_if<TensorName>(&input.value)) return add_operand(input.name, tensor->name, node);
    if (const auto* list = std::get_if<TensorNames>(&input.value)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        if ((*list)[i].empty()) continue;
        if (Status status = add_operand(input.name + "." + std::to_string(i), (*list)[i], node); !status) return status;
      }
      return Done{};
    }
    if (const auto* symbol = std::get_if<Symbolic>(&input.value)) return open_number(input.name, symbol->elements[0]);
    return bad_input("argument '" + input.name + "' of '" + node.op + "' is of the kind '" +
                     std::get<Unsupported>(input.value).kind + "', which no functional ATen operator has");
  }

  Status add_results(const ArgumentValue& output, NodeId id, Node& node) {
    TensorNames names;
    if (const auto* tensor = std::get_if<TensorName>(&output)) {
      names.push_back(tensor->name);
    } else if (const auto* list = std::get_if<TensorNames>(&output)) {
      names = *list;
    } else if (const auto* symbol = std::get_if<Symbolic>(&output)) {
      return open_number(symbol->elements[0], symbol->elements[0]);
    } else if (const auto* attribute = std::get_if<Attribute>(&output); !attribute || attribute->index() != 0) {
      return bad_input("'" + node.op + "' returns something that is not a tensor");
    }
    for (const std::string& name : names) {
      auto value = add_value(name, id);
      if (!value) return value.error();
      node.results.push_back(*value);
    }
    return Done{};
  }

  Status add_outputs() {
    for (const OutputSpec& output : program_.outputs) {
      if (output.value.empty() || output.kind == "token") continue;
      OutputKind kind = OutputKind::user_output;
      if (output.kind == "loss_output") {
        kind = OutputKind::loss;
      } else if (output.kind == "buffer_mutation") {
        kind = OutputKind::buffer_mutation;
      } else if (output.kind != "user_output") {
        return bad_input(
            "output '" + output.value + "' is of the kind '" + output.kind +
            "'; export the forward pass alone, of a model that changes neither its inputs nor its parameters");
      }
      const auto id = ids_.find(output.value);
      if (id == ids_.end()) return bad_input("output '" + output.value + "' is not defined");
      graph_.outputs.push_back({kind, id->second, output.target});
    }
    return Done{};
  }

  // torch.export marks no loss: it is the one differentiable scalar that the model returns.
  void mark_loss() {
    Output* loss = nullptr;
    for (Output& output : graph_.outputs) {
      if (output.kind == OutputKind::loss) return;
      const Value& value = graph_.values[output.value];
      const bool scalar = value.type.elements() == 1 && value.type.rank() == 0 && value.requires_gradient;
      if (output.kind != OutputKind::user_output || !scalar) continue;
      if (loss != nullptr) return;  // two candidates: nobody said which
      loss = &output;
    }
    if (loss != nullptr) loss->kind = OutputKind::loss;
  }

  const ExportedProgram& program_;
  const Archive& archive_;
  const std::unordered_set<std::string> used_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Result<TensorType> type_of(const std::string& name, const ExportedTensor& tensor) {
  if (!tensor.symbol.empty()) return open_shape(name, tensor.symbol);
  const auto dtype = dtype_of(tensor.dtype_code);
  if (!dtype) {
    return bad_input("value '" + name + "' has a dtype that is not supported (the export schema's code " +
                     std::to_string(tensor.dtype_code) + ")");
  }
  std::int64_t bytes = size_bytes(*dtype);
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return bad_input("value '" + name + "' has a negative or an impossibly large size");
    }
  }
  return TensorType{*dtype, tensor.shape};
}

std::unordered_set<std::string> used_values(const ExportedProgram& program) {
  std::unordered_set<std::string> used;
  for (const ExportedNode& node : program.nodes) {
    if (is_without_effect(op_name(node.target))) continue;
    for (const Argument& input : node.inputs) {
      if (const auto* tensor = std::get_if<TensorName>(&input.value)) used.insert(tensor->name);
      if (const auto* list = std::get_if<TensorNames>(&input.value)) used.insert(list->begin(), list->end());
    }
  }
  for (const OutputSpec& output : program.outputs) used.insert(output.value);
  return used;
}

Result<Graph> translate(const ExportedProgram& program, const Archive& archive, const std::string& graph_name) {
  return Translator(program, archive).run(graph_name);
}

}  // namespace meshwright::torch_export
