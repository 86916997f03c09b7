#include "files/graph_reader.h"

#include <cmath>

#include "plan_words.h"

namespace meshwright::host {

namespace {

TensorType read_type(const JsonPlace& dtype, const JsonPlace& shape) {
  const auto parsed = parse_dtype(dtype.text());
  if (!parsed) dtype.fail("'" + dtype.text() + "' is no dtype");
  TensorType type{parsed.value_or(DType::float32), {}};
  std::int64_t bytes = size_bytes(type.dtype);
  for (const JsonPlace& size : shape.elements()) {
    type.shape.push_back(size.integer(0));
    if (__builtin_mul_overflow(bytes, type.shape.back(), &bytes)) shape.fail("the tensor is impossibly large");
  }
  return type;
}

// The words for what JSON has no number for; see attribute_json.
double read_real(const JsonPlace& place) {
  if (!std::holds_alternative<std::string>(place.value())) return place.number();
  const std::string word = place.text();
  if (word == "inf") return INFINITY;
  if (word == "-inf") return -INFINITY;
  if (word != "nan") place.fail("'" + word + "' is none of inf, -inf, nan");
  return NAN;
}

std::vector<double> read_reals(const JsonPlace& place) {
  std::vector<double> reals;
  for (const JsonPlace& element : place.elements()) reals.push_back(read_real(element));
  return reals;
}

Attribute read_list(const JsonPlace& place) {
  std::vector<std::int64_t> integers;
  for (const JsonPlace& element : place.elements()) {
    if (std::holds_alternative<double>(element.value())) return read_reals(place);
    integers.push_back(element.integer());
  }
  return integers;
}

Attribute read_attribute(const JsonPlace& place) {
  struct Visitor {
    const JsonPlace& place;
    Attribute operator()(std::nullptr_t) const { return {}; }
    Attribute operator()(bool value) const { return value; }
    Attribute operator()(std::int64_t value) const { return value; }
    Attribute operator()(double value) const { return value; }
    Attribute operator()(const std::string& value) const { return value; }
    Attribute operator()(const Json::Array&) const { return read_list(place); }
    Attribute operator()(const Json::Object&) const {
      if (const auto reals = place.find("reals")) return read_reals(*reals);
      return read_real(place.at("real"));
    }
  };
  return std::visit(Visitor{place}, place.value());
}

ValueId read_id(const JsonPlace& place, const Graph& graph) { return place.index(graph.values.size(), "values"); }

Node read_node(const JsonPlace& place, const Graph& graph) {
  Node node;
  node.name = place.at("name").text();
  node.op = place.at("op").text();
  node.module_path = place.at("module").text();
  for (const JsonPlace& operand : place.at("operands").elements()) {
    const auto parts = operand.elements(2);
    node.operands.push_back({parts[0].text(), read_id(parts[1], graph)});
  }
  for (const auto& [name, attribute] : place.at("attributes").members()) {
    node.attributes.emplace(name, read_attribute(attribute));
  }
  for (const JsonPlace& result : place.at("results").elements()) node.results.push_back(read_id(result, graph));
  return node;
}

// The file does not repeat who makes a value: the nodes' results say it.
void set_producers(const JsonPlace& nodes, Graph& graph) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    for (const ValueId result : graph.nodes[id].results) {
      Value& value = graph.values[result];
      if (value.producer != kNoId) nodes.fail("'" + value.name + "' is the result of two nodes");
      value.producer = id;
    }
  }
}

void check_all_are_made(const JsonPlace& values, const Graph& graph) {
  std::vector<bool> made(graph.values.size());
  for (const Source& source : graph.sources) made[source.value] = true;
  for (std::size_t id = 0; id < made.size(); ++id) {
    const Value& value = graph.values[id];
    if (!made[id] && value.producer == kNoId) values.fail("'" + value.name + "' is neither a source nor a result");
  }
}

}  // namespace

Graph read_graph(const JsonPlace& place) {
  Graph graph;
  graph.name = place.at("name").text();
  const JsonPlace values = place.at("values");
  for (const JsonPlace& value : values.elements()) {
    const auto parts = value.elements(4);
    graph.values.push_back({parts[0].text(), read_type(parts[1], parts[2]), kNoId, parts[3].boolean()});
  }
  for (const JsonPlace& source : place.at("sources").elements()) {
    graph.sources.push_back(
        {source.at("kind").one_of(SourceKind::received, [](SourceKind kind) { return word(kind); }),
         read_id(source.at("value"), graph), source.at("names").texts()});
  }
  const JsonPlace nodes = place.at("nodes");
  for (const JsonPlace& node : nodes.elements()) graph.nodes.push_back(read_node(node, graph));
  for (const JsonPlace& output : place.at("outputs").elements()) {
    graph.outputs.push_back(
        {output.at("kind").one_of(OutputKind::sent, [](OutputKind kind) { return word(kind); }),
         read_id(output.at("value"), graph), output.at("target").text()});
  }
  if (place.failed()) return graph;
  set_producers(nodes, graph);
  check_all_are_made(values, graph);
  return graph;
}

}  // namespace meshwright::host
