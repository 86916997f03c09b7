#include "op_case.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "meshwright/graph_builder.h"
#include "split_mix.h"

namespace meshwright {

namespace {

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list.substr(1, list.size() - 2));
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<std::int64_t> integers_of(const std::string& list) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : parts_of(list)) numbers.push_back(std::stoll(part));
  return numbers;
}

bool is_integer(const std::string& text) { return text.find_first_not_of("-0123456789") == std::string::npos; }

bool is_number(const std::string& text) {
  return text.find_first_not_of("-+.e0123456789") == std::string::npos && text.find_first_of("0123456789") != std::string::npos;
}

Attribute attribute_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.front() == '[') {
    if (text.find('.') == std::string::npos) return integers_of(text);
    std::vector<double> numbers;
    for (const std::string& part : parts_of(text)) numbers.push_back(std::stod(part));
    return numbers;
  }
  if (is_integer(text)) return static_cast<std::int64_t>(std::stoll(text));
  if (is_number(text)) return std::stod(text);
  return text;
}

// "float64[2, 3] gradient below 7" → the type; the rest stays in `text`.
Result<TensorType> take_type(std::string& text) {
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return bad_input("'" + text + "' is no type such as float64[2, 3]");
  const std::optional<DType> dtype = parse_dtype(text.substr(0, open));
  if (!dtype) return bad_input("'" + text.substr(0, open) + "' is no dtype");
  TensorType type{*dtype, integers_of(text.substr(open, close - open + 1))};
  for (const std::int64_t size : type.shape) {
    if (size < 0) return bad_input("'" + text + "': sizes are 0 and more");
  }
  text.erase(0, close + 1);
  return type;
}

Result<OpCase> parse_block(const std::vector<std::string>& lines) {
  OpCase op_case;
  Graph& graph = op_case.graph;
  Node node;
  node.name = "call";
  for (const std::string& line : lines) {
    std::istringstream in(line);
    std::string word, name, rest;
    in >> word;
    if (word == "op") in >> node.op;
    if (word == "attribute") {
      in >> name;
      std::getline(in >> std::ws, rest);
      node.attributes[name] = attribute_of(rest);
    }
    if (word == "op" || word == "attribute") continue;
    if (word != "operand" && word != "result") return bad_input("'" + word + "' begins no line; op, attribute, operand and result do");
    const bool operand = word == "operand";
    if (operand) in >> name;
    std::getline(in >> std::ws, rest);
    const auto id = static_cast<ValueId>(graph.values.size());
    Result<TensorType> type = take_type(rest);
    if (!type) return type.error();
    Value value{operand ? name : "result" + std::to_string(node.results.size()), std::move(*type), operand ? kNoId : 0, false};
    const std::size_t gradient = rest.find(" gradient");
    value.requires_gradient = gradient != std::string::npos;
    if (value.requires_gradient) rest.erase(gradient, sizeof(" gradient") - 1);
    if (operand) {
      graph.sources.push_back({value.requires_gradient ? SourceKind::parameter : SourceKind::user_input, id, {name}});
      node.operands.push_back({name, id});
      op_case.draws.push_back(rest.empty() ? rest : rest.substr(1));
    } else {
      node.results.push_back(id);
      if (rest == " own") op_case.own.push_back(id);
    }
    graph.values.push_back(std::move(value));
  }
  if (node.op.empty() || node.results.empty()) return bad_input("an op and a result are needed");
  graph.nodes.push_back(std::move(node));
  mark_gradients(graph);
  if (Status status = validate(graph); !status) return status.error();
  return op_case;
}

}  // namespace

Result<std::vector<OpCase>> read_op_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return bad_input(path + ": cannot be read");
  std::vector<OpCase> cases;
  std::vector<std::string> lines;
  const auto finish = [&]() -> Status {
    if (lines.empty()) return Done{};
    const std::string where = path + ", block " + std::to_string(cases.size() + 1);
    try {
      Result<OpCase> parsed = parse_block(lines);
      if (!parsed) return add_context(where, parsed.error());
      cases.push_back(std::move(*parsed));
    } catch (const std::exception&) {  // a number that is none, or too large
      return bad_input(where + ": a number cannot be read");
    }
    cases.back().file = path;
    cases.back().number = static_cast<int>(cases.size());
    lines.clear();
    return Done{};
  };
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
    if (!line.empty()) continue;
    if (Status status = finish(); !status) return status.error();
  }
  if (Status status = finish(); !status) return status.error();
  return cases;
}

namespace {

constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()};

}  // namespace

std::map<ValueId, Tensor> draw_sources(const OpCase& op_case, std::uint64_t seed) {
  SplitMix random{seed};
  std::map<ValueId, Tensor> sources;
  for (std::size_t i = 0; i < op_case.graph.sources.size(); ++i) {
    const ValueId id = op_case.graph.sources[i].value;
    Tensor tensor(op_case.graph.type(id));
    std::istringstream draw(op_case.draws[i]);
    std::string word;
    double limit = 0;
    draw >> word >> limit;
    const bool floating = is_floating(tensor.type().dtype);
    for (std::int64_t at = 0; at < tensor.elements(); ++at) {
      const double unit = random.unit();
      double number = floating ? 2 * unit - 1 : static_cast<double>(static_cast<int>(2 * unit));
      if (word == "positive") number = 0.5 + unit;
      if (word == "cyclic") number = static_cast<double>(at % static_cast<std::int64_t>(limit));
      if (word == "above") number = limit + unit;
      if (word == "special" && at % 5 < 3) number = kSpecial[at % 5];
      if (word == "below") number = floating ? limit * unit : static_cast<double>(static_cast<std::int64_t>(limit * unit));
      tensor.set(at, number);
    }
    sources.emplace(id, std::move(tensor));
  }
  return sources;
}

namespace {

std::string weights_name(ValueId result) { return "weights" + std::to_string(result); }

}  // namespace

ValueId weights_of(const Graph& graph, ValueId result) {
  for (const Source& source : graph.sources) {
    if (graph.values[source.value].name == weights_name(result)) return source.value;
  }
  return kNoId;
}

Graph with_loss(const OpCase& op_case, std::map<ValueId, Tensor>& sources) {
  Graph graph = op_case.graph;
  GraphBuilder build(graph, "loss_");
  ValueId loss = kNoId;
  const std::vector<ValueId> results = graph.nodes[0].results;
  DType dtype = DType::float64;  // of the loss: that of the first result that has one
  for (const ValueId result : std::vector(results.rbegin(), results.rend())) {
    if (is_floating(graph.type(result).dtype)) dtype = graph.type(result).dtype;
  }
  for (const ValueId result : results) {
    const bool own = std::find(op_case.own.begin(), op_case.own.end(), result) != op_case.own.end();
    if (own || graph.type(result).elements() == 0) continue;
    const TensorType type{dtype, graph.type(result).shape};
    const bool parameter = !graph.values[result].requires_gradient;
    const auto weights = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({weights_name(result), type, kNoId, parameter});
    graph.sources.push_back({parameter ? SourceKind::parameter : SourceKind::user_input, weights, {weights_name(result)}});
    Tensor drawn(type);
    for (std::int64_t i = 0; i < drawn.elements(); ++i) drawn.set(i, std::sin(1.0 + 7.0 * static_cast<double>(i)));
    sources.emplace(weights, std::move(drawn));
    const bool copies = graph.type(result) != type;
    const ValueId factor = copies ? build.emit("aten._to_copy", {{"self", result}}, {}, type) : result;
    const ValueId product = build.emit("aten.mul.Tensor", {{"self", factor}, {"other", weights}}, {}, type);
    const TensorType scalar{type.dtype, {}};
    const ValueId sum = build.emit("aten.sum", {{"self", product}}, {}, scalar);
    loss = loss == kNoId ? sum : build.emit("aten.add.Tensor", {{"self", loss}, {"other", sum}}, {}, scalar);
  }
  graph.outputs.push_back({OutputKind::loss, loss, ""});
  mark_gradients(graph);
  return graph;
}

}  // namespace meshwright
