// The only file that sees the JSON library. It throws on a wrong structure; that is caught once per document.
#include <limits>
#include <nlohmann/json.hpp>

#include "exported_program.h"
#include "foreign_text.h"

namespace meshwright::torch_export {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kSchemaMajor = 8;
constexpr std::size_t kMostDepth = 500;  // an export has about 20

struct StructureError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::int64_t integer(const Json& json) {
  if (!json.is_number_integer()) throw StructureError("a whole number was expected, not " + json.dump().substr(0, 40));
  return json.get<std::int64_t>();
}

// JSON has no infinities, so the schema writes them as text.
double real(const Json& json) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  if (!json.is_number()) throw StructureError("a number was expected, not " + json.dump().substr(0, 40));
  return json.get<double>();
}

std::string text_of(const Json& json) { return json.get<std::string>(); }

const Json& array(const Json& json) {
  if (!json.is_array()) throw StructureError("a list was expected, not " + json.dump().substr(0, 40));
  return json;
}

// The schema's unions are objects of one key.
struct Union {
  const std::string& kind;
  const Json& value;
};

Union union_of(const Json& json) {
  if (!json.is_object() || json.size() != 1) {
    throw StructureError("an object with one key was expected, not " + json.dump().substr(0, 40));
  }
  return {json.begin().key(), json.begin().value()};
}

std::string dtype_text(const Json& json) {
  const auto dtype = dtype_of(static_cast<int>(integer(json)));
  if (!dtype) throw StructureError("the dtype with the code " + json.dump() + " is not supported");
  return std::string(name(*dtype));
}

ArgumentValue symbolic(const Json& json, Attribute (*number)(const Json&)) {
  const auto [kind, value] = union_of(json);
  if (kind == "as_name") return Symbolic{{text_of(value)}};
  return number(value);
}

ArgumentValue symbolic_integers(const Json& json) {
  Symbolic list{{}, true};
  std::vector<std::int64_t> values;
  for (const Json& element : array(json)) {
    const auto [kind, value] = union_of(element);
    list.elements.push_back(kind == "as_name" ? text_of(value) : std::to_string(integer(value)));
    if (kind != "as_name") values.push_back(integer(value));
  }
  if (values.size() < list.elements.size()) return list;
  return Attribute(std::move(values));
}

std::string optional_tensor(const Json& json) {
  const auto [kind, value] = union_of(json);
  return kind == "as_tensor" ? text_of(value.at("name")) : std::string();
}

template <class Element>
TensorNames tensor_names(const Json& json, Element element) {
  TensorNames names;
  for (const Json& item : array(json)) names.push_back(element(item));
  return names;
}

template <class T, class Element>
Attribute list_of(const Json& json, Element element) {
  std::vector<T> values;
  for (const Json& item : array(json)) values.push_back(element(item));
  return values;
}

std::string memory_format(const Json& json) {
  static const char* const names[] = {"unknown", "contiguous", "channels_last", "channels_last_3d", "preserve"};
  const std::int64_t code = integer(json);
  return names[code >= 0 && code < 5 ? code : 0];
}

ArgumentValue argument_value(const Json& json) {
  const auto [kind, value] = union_of(json);
  if (kind == "as_tensor") return TensorName{text_of(value.at("name"))};
  if (kind == "as_int") return Attribute(integer(value));
  if (kind == "as_ints") return list_of<std::int64_t>(value, integer);
  if (kind == "as_float") return Attribute(real(value));
  if (kind == "as_bool") return Attribute(value.get<bool>());
  if (kind == "as_none") return Attribute();
  if (kind == "as_tensors") return tensor_names(value, [](const Json& item) { return text_of(item.at("name")); });
  if (kind == "as_optional_tensors") return tensor_names(value, optional_tensor);
  if (kind == "as_optional_tensor") {
    const std::string name = optional_tensor(value);
    return name.empty() ? ArgumentValue(Attribute()) : ArgumentValue(TensorName{name});
  }
  if (kind == "as_floats") return list_of<double>(value, real);
  if (kind == "as_bools")
    return list_of<std::int64_t>(value, [](const Json& item) { return item.get<bool>() ? 1 : 0; });
  if (kind == "as_string" || kind == "as_operator") return Attribute(text_of(value));
  if (kind == "as_scalar_type") return Attribute(dtype_text(value));
  if (kind == "as_memory_format") return Attribute(memory_format(value));
  if (kind == "as_layout") return Attribute(integer(value) == 7 ? "strided" : "sparse");
  if (kind == "as_device") return Attribute(text_of(value.at("type")));
  if (kind == "as_sym_int") return symbolic(value, [](const Json& number) { return Attribute(integer(number)); });
  if (kind == "as_sym_float") return symbolic(value, [](const Json& number) { return Attribute(real(number)); });
  if (kind == "as_sym_bool") {
    ArgumentValue flag = symbolic(value, [](const Json& known) { return Attribute(known.get<bool>()); });
    if (auto* open = std::get_if<Symbolic>(&flag)) open->is_check = true;
    return flag;
  }
  if (kind == "as_sym_ints") return symbolic_integers(value);
  return Unsupported{kind};
}

ExportedNode node_of(const Json& json) {
  ExportedNode node;
  node.target = text_of(json.at("target"));
  if (const auto name = json.find("name"); name != json.end() && name->is_string()) node.name = text_of(*name);
  for (const Json& input : array(json.at("inputs"))) {
    node.inputs.push_back({text_of(input.at("name")), argument_value(input.at("arg"))});
  }
  for (const Json& output : array(json.at("outputs"))) node.outputs.push_back(argument_value(output));
  if (const auto metadata = json.find("metadata"); metadata != json.end() && metadata->is_object()) {
    node.module_stack = metadata->value("nn_module_stack", "");
  }
  return node;
}

// "Mul(Integer(2), Symbol('u0', integer=True))" reads "Mul(Integer(2), u0)".
std::string expression_text(const Json& json) {
  static constexpr std::string_view opening = "Symbol('";
  std::string text = json.value("expr_str", "?");
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
    const std::size_t name = at + opening.size();
    const std::size_t quote = text.find('\'', name);
    const std::size_t end = text.find(')', name);
    if (quote == std::string::npos || end == std::string::npos || end < quote) break;
    text.replace(at, end + 1 - at, text.substr(name, quote - name));
  }
  return text;
}

ExportedTensor tensor_of(const Json& json) {
  ExportedTensor tensor;
  tensor.dtype_code = static_cast<int>(integer(json.at("dtype")));
  for (const Json& size : array(json.at("sizes"))) {
    const auto [kind, value] = union_of(size);
    tensor.shape.push_back(kind == "as_int" ? integer(value) : 0);
    tensor.expressions.push_back(kind == "as_int" ? "" : expression_text(value));
    if (tensor.symbol.empty()) tensor.symbol = tensor.expressions.back();
  }
  tensor.requires_gradient = json.value("requires_grad", false);
  return tensor;
}

std::string tensor_name_or_none(const Json& json) {
  const ArgumentValue value = argument_value(json);
  const auto* tensor = std::get_if<TensorName>(&value);
  return tensor ? tensor->name : std::string();
}

InputSpec input_of(const Json& json) {
  const auto [kind, spec] = union_of(json);
  if (kind == "user_input") return {InputSpec::Kind::user_input, tensor_name_or_none(spec.at("arg")), ""};
  if (kind == "parameter") {
    return {InputSpec::Kind::parameter, text_of(spec.at("arg").at("name")), text_of(spec.at("parameter_name"))};
  }
  if (kind == "buffer") {
    return {InputSpec::Kind::buffer, text_of(spec.at("arg").at("name")), text_of(spec.at("buffer_name"))};
  }
  if (kind == "tensor_constant") {
    return {InputSpec::Kind::constant, text_of(spec.at("arg").at("name")), text_of(spec.at("tensor_constant_name"))};
  }
  return {};
}

OutputSpec output_of(const Json& json) {
  const auto [kind, spec] = union_of(json);
  if (kind == "user_output") return {kind, tensor_name_or_none(spec.at("arg")), ""};
  return {kind, text_of(spec.at("arg").at("name")), spec.value("buffer_name", "")};
}

// What nlohmann's messages say after their "[json.exception.out_of_range.403] ".
std::string reason_of(const std::exception& problem) {
  const std::string message = problem.what();
  const auto end = message.find("] ");
  return message.starts_with("[json.exception") && end != std::string::npos ? message.substr(end + 2) : message;
}

// The size that an expression had in the export.
void read_hint(const Json& expression, ExportedProgram& program) {
  const auto hint = expression.find("hint");
  if (hint == expression.end() || !hint->is_object() || !hint->contains("as_int")) return;
  program.hints.emplace(expression_text(expression), integer(hint->at("as_int")));
}

// The sizes that the export allows: a large number, or none, stands for no limit.
void read_ranges(const Json& json, ExportedProgram& program) {
  const auto ranges = json.find("range_constraints");
  if (ranges == json.end() || !ranges->is_object()) return;
  for (const auto& [symbol, range] : ranges->items()) {
    const auto limit = [&, &range = range](const char* name, std::int64_t otherwise) {
      const auto found = range.find(name);
      return found != range.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
    };
    program.ranges[symbol] = {limit("min_val", 0), limit("max_val", std::numeric_limits<std::int64_t>::max())};
  }
}

ExportedProgram program_of(const Json& json) {
  ExportedProgram program;
  const Json& graph = json.at("graph_module").at("graph");
  read_ranges(json, program);
  for (const auto& [name, tensor] : graph.at("tensor_values").items()) {
    program.tensors.emplace(name, tensor_of(tensor));
    for (const Json& size : array(tensor.at("sizes"))) {
      if (const auto [kind, value] = union_of(size); kind == "as_expr") read_hint(value, program);
    }
  }
  if (const auto numbers = graph.find("sym_int_values"); numbers != graph.end() && numbers->is_object()) {
    for (const auto& [name, number] : numbers->items()) {
      const auto [kind, value] = union_of(number);
      if (kind != "as_expr") continue;
      program.numbers.emplace(name, expression_text(value));
      read_hint(value, program);
    }
  }
  for (const Json& node : array(graph.at("nodes"))) {
    try {
      program.nodes.push_back(node_of(node));
    } catch (const std::exception& problem) {
      const std::string name = node.is_object() ? node.value("name", "?") : "?";
      throw StructureError("node '" + name + "': " + reason_of(problem));
    }
  }
  const Json& signature = json.at("graph_module").at("signature");
  for (const Json& input : array(signature.at("input_specs"))) program.inputs.push_back(input_of(input));
  for (const Json& output : array(signature.at("output_specs"))) program.outputs.push_back(output_of(output));
  return program;
}

Error structure_error(std::string_view file, const std::exception& problem) {
  return bad_input(std::string(file) +
                   " does not have the structure of torch.export's schema 8: " + reason_of(problem));
}

WeightPlace place_of(const Json& json) {
  const Json& meta = json.at("tensor_meta");
  WeightPlace place{
      text_of(json.at("path_name")), tensor_of(meta), integer(union_of(meta.at("storage_offset")).value), {}};
  for (const Json& stride : array(meta.at("strides"))) place.strides.push_back(integer(union_of(stride).value));
  place.has_bytes = meta.at("device").at("type") != "meta";
  place.is_raw = !json.value("use_pickle", false);
  return place;
}

using Places = std::unordered_map<std::string, WeightPlace>;

Result<Places> parse_places(const std::string& text, const std::string& file) {
  if (text.empty()) return Places{};
  if (nests_deeper(text, kMostDepth)) return bad_input(file + " is nested more than " + std::to_string(kMostDepth) + " deep");
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return bad_input(file + " is not valid JSON");
  try {
    Places places;
    for (const auto& [name, tensor] : json.at("config").items()) {
      if (!tensor.at("tensor_meta").is_null()) places.emplace(name, place_of(tensor));  // null: an object, no tensor
    }
    return places;
  } catch (const std::exception& problem) {
    return structure_error(file, problem);
  }
}

}  // namespace

Result<ExportedProgram> parse_program(const std::string& text) {
  if (nests_deeper(text, kMostDepth)) return bad_input("models/model.json is nested more than " + std::to_string(kMostDepth) + " deep");
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    return bad_input("models/model.json is not valid JSON, or it was cut short; export the model again");
  try {
    const Json& version = json.at("schema_version");
    const std::int64_t major = integer(version.at("major"));
    if (major != kSchemaMajor) {
      return bad_input("the file has export schema " + std::to_string(major) +
                       ", and this program reads schema 8; export the model again with torch 2.15, which writes it");
    }
    return program_of(json);
  } catch (const std::exception& problem) {
    return structure_error("models/model.json", problem);
  }
}

Result<std::unordered_map<std::string, WeightPlace>> parse_weights(const std::string& text) {
  return parse_places(text, "data/weights/model_weights_config.json");
}

Result<std::unordered_map<std::string, WeightPlace>> parse_constants(const std::string& text) {
  return parse_places(text, "data/constants/model_constants_config.json");
}

}  // namespace meshwright::torch_export
