#include "schema.h"

#include <algorithm>
#include <array>
#include <map>

namespace meshwright::aten {

namespace {

constexpr auto kLines = std::to_array<std::string_view>({
#include "schemas.inc"
});

Parameter parse_parameter(std::string_view word) {
  const std::size_t end = word.find_first_of(":=");
  Parameter made{word.substr(0, end), Kind::other, word[end] == ':', false};
  const std::string_view kind = word.substr(end + 1);
  switch (kind[0]) {
    case 'T':
      made.kind = kind.ends_with('*') ? Kind::tensors : Kind::tensor;
      break;
    case 'i':
      made.kind = Kind::integer;
      break;
    case 'I':
      made.kind = Kind::integers;
      break;
    case 'f':
      made.kind = Kind::number;
      break;
    case 'F':
      made.kind = Kind::numbers;
      break;
    case 's':
      made.kind = Kind::scalar;
      break;
    case 'b':
      made.kind = Kind::truth;
      break;
    case 't':
      made.kind = Kind::text;
      break;
    case 'd':
      made.kind = Kind::dtype;
      break;
    default:
      break;
  }
  made.holes = kind == "T?*";
  return made;
}

// The line is ours, so it is well formed.
Schema parse_schema(std::string_view line) {
  Schema schema;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    at = end + 1;
    if (schema.op.empty()) {
      schema.op = word;
    } else if (word == "->") {
      schema.listed = line[at] == '*';
      schema.results = schema.listed ? 0 : static_cast<std::size_t>(line[at] - '0');
      break;
    } else {
      schema.parameters.push_back(parse_parameter(word));
    }
  }
  return schema;
}

const std::map<std::string_view, Schema>& schemas() {
  static const std::map<std::string_view, Schema> kSchemas = [] {
    std::map<std::string_view, Schema> made;
    for (const std::string_view line : kLines) {
      Schema schema = parse_schema(line);
      made.emplace(schema.op, std::move(schema));
    }
    return made;
  }();
  return kSchemas;
}

bool is_number_text(std::string_view text) {
  return !text.empty() && text.size() <= 6 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "indices" and 2 of "indices.2".
std::pair<std::string_view, std::optional<std::size_t>> split_element(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !is_number_text(name.substr(dot + 1))) return {name, std::nullopt};
  std::size_t number = 0;
  for (const char digit : name.substr(dot + 1)) number = number * 10 + static_cast<std::size_t>(digit - '0');
  return {name.substr(0, dot), number};
}

// "aten.add.Tensor" of a tensor and a number, as exports have it; their functions take one under this name alone.
bool may_be_number(const Schema& schema, const Parameter& parameter) {
  return parameter.name == "other" && (schema.op.ends_with(".Tensor") || schema.op.ends_with(".Tensor_mode") || schema.op == "aten.floor_divide");
}

bool is_number(const Attribute& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value) ||
         std::holds_alternative<bool>(value);
}

Status check_operands(const Schema& schema, const Node& node) {
  std::map<std::string_view, std::size_t> elements;
  const Parameter* before = nullptr;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const std::string& name = node.operands[i].name;
    for (std::size_t j = 0; j < i; ++j) {
      if (node.operands[j].name == name) return bad_input("it has the operand '" + name + "' twice");
    }
    const Parameter* parameter = schema.find(name);
    const auto [list, element] = split_element(name);
    const bool whole = parameter != nullptr && parameter->kind == Kind::tensor;
    if (!whole) parameter = schema.find(list);
    if (parameter == nullptr || (!whole && (!element || parameter->kind != Kind::tensors)))
      return bad_input("it takes no tensor '" + name + "'");
    if (before != nullptr && parameter < before)
      return bad_input("its tensor '" + name + "' stands behind those that follow it in the op's schema");
    before = parameter;
    if (whole) continue;
    std::size_t& next = elements[list];
    // In their order; those of a list without holes one after the other.
    if (*element < next || (!parameter->holes && *element != next) || *element > 1'000'000)
      return bad_input("the tensors of '" + std::string(list) + "' are not numbered 0, 1, 2, ...");
    next = *element + 1;
  }
  for (const Parameter& parameter : schema.parameters) {
    if (!parameter.required) continue;
    const auto number = node.attributes.find(parameter.name);
    if (number != node.attributes.end() && may_be_number(schema, parameter) && is_number(number->second)) continue;
    const bool given = parameter.kind == Kind::tensor ? node.operand_index(parameter.name).has_value()
                                                      : elements.contains(parameter.name);
    if (!given) return bad_input("its tensor '" + std::string(parameter.name) + "' is missing");
  }
  return Done{};
}

bool is_kind(const Attribute& value, Kind kind) {
  const bool integer = std::holds_alternative<std::int64_t>(value), truth = std::holds_alternative<bool>(value);
  const bool real = std::holds_alternative<double>(value), text = std::holds_alternative<std::string>(value);
  const auto* integers = std::get_if<std::vector<std::int64_t>>(&value);
  switch (kind) {
    case Kind::integer:
      return integer;
    case Kind::integers:
      return integers != nullptr || integer;  // one number for all dimensions
    case Kind::number:
    case Kind::scalar:
      return integer || real || truth;
    case Kind::numbers:
      return integers != nullptr || std::holds_alternative<std::vector<double>>(value);
    case Kind::truth:
      return truth;
    case Kind::text:
      return text;
    case Kind::dtype:
      return text && parse_dtype(std::get<std::string>(value)).has_value();
    case Kind::other:
      return true;
    case Kind::tensor:
    case Kind::tensors:
      break;
  }
  return false;
}

std::string_view expected(Kind kind) {
  switch (kind) {
    case Kind::integer:
      return "a whole number";
    case Kind::integers:
      return "a list of whole numbers";
    case Kind::number:
    case Kind::scalar:
      return "a number";
    case Kind::numbers:
      return "a list of numbers";
    case Kind::truth:
      return "true or false";
    case Kind::text:
      return "a text";
    case Kind::dtype:
      return "the name of a dtype";
    default:
      return "a tensor";
  }
}

// So large that sizes and positions made of it stay numbers. Exports write "to the end" as the largest of all.
bool is_sane(std::int64_t value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  return (value >= -kMost && value <= kMost) || value == INT64_MAX;
}

bool is_sane(const Attribute& value) {
  if (const auto* one = std::get_if<std::int64_t>(&value)) return is_sane(*one);
  const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  return list == nullptr || std::all_of(list->begin(), list->end(), [](std::int64_t each) { return is_sane(each); });
}

Status check_attributes(const Schema& schema, const Node& node) {
  for (const auto& [name, value] : node.attributes) {
    const Parameter* parameter = schema.find(name);
    if (parameter == nullptr) return bad_input("it takes no argument '" + name + "'");
    if (std::holds_alternative<std::monostate>(value)) continue;
    if (may_be_number(schema, *parameter) && is_number(value) && !node.operand_index(name)) continue;
    if (!is_kind(value, parameter->kind))
      return bad_input("its argument '" + name + "' must be " + std::string(expected(parameter->kind)));
    if (parameter->kind != Kind::scalar && !is_sane(value))
      return bad_input("its argument '" + name + "' is impossibly large");
  }
  return Done{};
}

}  // namespace

const Parameter* Schema::find(std::string_view name) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& each) { return each.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

const Schema* find_schema(std::string_view op) {
  const auto found = schemas().find(op);
  return found == schemas().end() ? nullptr : &found->second;
}

Status check_arguments(const Schema& schema, const Node& node) {
  if (Status status = check_operands(schema, node); !status) return status;
  if (Status status = check_attributes(schema, node); !status) return status;
  // A backward gives as many as its mask asks for, and a batch norm nothing for what it does not keep.
  const bool fits = schema.listed
                        ? !node.results.empty()
                        : node.results.size() == schema.results ||
                              (schema.results > 1 && !node.results.empty() && node.results.size() < schema.results);
  if (!fits)
    return bad_input("it gives " + std::to_string(schema.results) + " tensors, and the node has " +
                     std::to_string(node.results.size()));
  return Done{};
}

}  // namespace meshwright::aten
