// Runs the golden texts of one op family: GOLDEN FILE... [--update]
//
// A text is blocks separated by empty lines. A block says an op, its tensors and a mesh, and then, derived by the
// kernel from the family's rule, the rule and every strategy with its collectives:
//
//   # MAP's linear, C_ij = A_ik B_kj
//   op aten.mm
//   operand self float32[8, 4] gradient
//   operand mat2 float32[4, 16] gradient
//   result float32[8, 16]
//   mesh 2x4
//   = rule m k, k n -> m n
//   = S0S1 = S0R x RS1 | backward all_reduce(1) of self, all_reduce(0) of mat2
//   ...
//
// The line of a strategy reads like MAP's: the result, once reduced, and the operands; then what ranks send inside the op, as
// the family localizes it, what the forward must reduce, and what the backward. "attribute NAME VALUE" gives a number, a list [1, 2], true or false, or a text.
#include <fstream>
#include <iostream>
#include <sstream>

#include "meshwright/atoms.h"
#include "meshwright/conversion.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"
#include "meshwright/strategy.h"

extern "C" const meshwright_plugin_v1* meshwright_plugin() noexcept;

namespace meshwright {
namespace {

std::vector<std::int64_t> parse_list(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::istringstream in(text.substr(1, text.size() - 2));
  for (std::string number; std::getline(in, number, ',');) numbers.push_back(std::stoll(number));
  return numbers;
}

// "float32[8, 4]"
TensorType parse_type(const std::string& text) {
  const std::size_t bracket = text.find('[');
  return {parse_dtype(text.substr(0, bracket)).value(), parse_list(text.substr(bracket))};
}

Attribute parse_attribute(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.front() == '[') return parse_list(text);
  if (text.find_first_not_of("-0123456789") == std::string::npos) return static_cast<std::int64_t>(std::stoll(text));
  return text;
}

class OneFamily final : public OpTable {
 public:
  explicit OneFamily(const OpFamily* family) : family_(family) {}
  const OpFamily* find(std::string_view) const override { return family_; }

 private:
  const OpFamily* family_;
};

struct Block {
  std::vector<std::string> input;  // comments too
  Graph graph;
  Mesh mesh;
};

Block parse_block(const std::vector<std::string>& lines) {
  Block block;
  Node node;
  node.name = "call";
  for (const std::string& line : lines) {
    if (line.starts_with("=")) continue;
    block.input.push_back(line);
    std::istringstream in(line);
    std::string word, name, rest;
    in >> word;
    if (word == "op") in >> node.op;
    if (word == "attribute") {
      in >> name;
      std::getline(in >> std::ws, rest);
      node.attributes[name] = parse_attribute(rest);
    }
    if (word == "operand" || word == "result") {
      if (word == "operand") in >> name;
      std::getline(in >> std::ws, rest);
      const bool gradient = rest.ends_with(" gradient");
      if (gradient) rest.resize(rest.size() - sizeof(" gradient") + 1);
      const auto id = static_cast<ValueId>(block.graph.values.size());
      block.graph.values.push_back({word == "operand" ? name : "result", parse_type(rest), word == "result" ? 0 : kNoId, gradient});
      if (word == "operand") node.operands.push_back({name, id});
      else node.results.push_back(id);
    }
    if (word == "mesh") {
      in >> rest;
      for (const std::int64_t size : parse_mesh_shape(rest).value()) block.mesh.axes.push_back({size, 1e-6, 1e-11, "link"});
    }
  }
  block.graph.nodes.push_back(node);
  return block;
}

std::string axes_of(const Layout& layout) {
  std::string text;
  for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
    if (layout[axis].is_partial()) text += std::to_string(axis);
  }
  return text;
}

// Writes down what ranks send each other inside an op: "all_reduce(0) of float32[8]", which is what one rank gives.
class MovesInside final : public LocalBuilder {
 public:
  MovesInside(std::vector<ShardedType> values, const Mesh& mesh) : values_(std::move(values)), mesh_(mesh) {}

  ProgramValueId make(ShardedType type) override {
    values_.push_back(std::move(type));
    return static_cast<ProgramValueId>(values_.size() - 1);
  }
  void retype(ProgramValueId own, ShardedType type) override { values_[own] = std::move(type); }
  void emit(std::string, const std::vector<Operand>&, Attributes, RankAttributes, const std::vector<ProgramValueId>&) override {}
  [[nodiscard]] const ShardedType& type(ProgramValueId value) const override { return values_[value]; }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void take_move(ProgramValueId from, const Move& move, ProgramValueId, bool) override {
    text_ += std::string(text_.empty() ? "" : ", ") + name(move.kind) + "(" + short_axes_text(move) + ") of " + to_string(local_type(values_[from], mesh_));
  }

  std::vector<ShardedType> values_;
  const Mesh& mesh_;
  std::string text_;
};

std::string inside_text(const CallLayouts& strategy, const Graph& graph, const AtomizedGraph& atoms, const Mesh& mesh, const OpFamily& family) {
  const Node& node = graph.nodes[0];
  std::vector<ShardedType> operands, results, values(graph.values.size());
  const auto add = [&](ValueId id, const Layout& layout, std::vector<ShardedType>& types) {
    types.push_back({graph.type(id), atoms.values[id], layout});
    values[id] = types.back();
  };
  for (std::size_t i = 0; i < node.operands.size(); ++i) add(node.operands[i].value, strategy.operands[i].value, operands);
  for (std::size_t i = 0; i < node.results.size(); ++i) add(node.results[i], strategy.results[i].value, results);
  MovesInside moves(std::move(values), mesh);
  const OpCall call = make_call(graph, node);
  const Status status = family.localize({call, std::move(operands), std::move(results), mesh, moves});
  if (!status) return " | " + status.error().message;
  return moves.text().empty() ? "" : " | inside " + moves.text();
}

std::string strategy_line(const CallLayouts& strategy, const Node& node, const std::vector<const AtomShape*>& operands,
                          const std::vector<const AtomShape*>& results, const Graph& graph, const std::string& inside) {
  std::string line, forward, backward;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Layout reduced = strategy.results[i].value;
    const std::string axes = axes_of(reduced);
    for (std::size_t axis = 0; axis < reduced.mesh_rank(); ++axis) {
      if (reduced[axis].is_partial()) reduced.place(axis, Placement::replicate());
    }
    line += (i > 0 ? ", " : "") + (results[i]->atoms_of_dimension.empty() ? std::string("scalar") : to_string(reduced, *results[i]));
    if (!axes.empty()) forward += (forward.empty() ? " | forward all_reduce(" : ", all_reduce(") + axes + ")";
    const std::string partial = axes_of(strategy.results[i].gradient);
    if (i == 0 && !partial.empty()) backward += " with a gradient partial over " + partial;
  }
  line += " =";
  for (std::size_t i = 0; i < operands.size(); ++i) line += (i > 0 ? " x " : " ") + to_string(strategy.operands[i].value, *operands[i]);
  bool first = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string axes = axes_of(strategy.operands[i].gradient);
    if (axes.empty() || !graph.values[node.operands[i].value].requires_gradient) continue;
    backward += (first ? " | backward all_reduce(" : ", all_reduce(") + axes + ") of " + node.operands[i].name;
    first = false;
  }
  return line + inside + forward + backward;
}

std::vector<std::string> derive(const Block& block, const OpFamily& family) {
  Graph graph = block.graph;
  const Node& node = graph.nodes[0];
  const OneFamily table(&family);
  Result<AtomizedGraph> atoms = atomize(graph, table);
  if (!atoms) return {"= error " + atoms.error().message};
  if (!atoms->nodes[0].ruled) return {"= refused " + atoms->warnings[0]};
  std::vector<std::string> lines = {"= rule " + to_string(atoms->nodes[0].rule)};
  std::vector<const AtomShape*> operands, results;
  std::vector<bool> gradients;
  for (const Operand& operand : node.operands) {
    operands.push_back(&atoms->values[operand.value]);
    gradients.push_back(graph.values[operand.value].requires_gradient);
  }
  for (const ValueId result : node.results) results.push_back(&atoms->values[result]);
  for (const CallLayouts& strategy : enumerate_strategies(atoms->nodes[0], block.mesh, operands, results, gradients)) {
    lines.push_back("= " + strategy_line(strategy, node, operands, results, graph, inside_text(strategy, graph, *atoms, block.mesh, family)));
  }
  return lines;
}

// The blocks of a file, as lines.
std::vector<std::vector<std::string>> read_blocks(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> blocks(1);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) blocks.back().push_back(line);
    else if (!blocks.back().empty()) blocks.emplace_back();
  }
  if (blocks.back().empty()) blocks.pop_back();
  return blocks;
}

// Returns the number of blocks that differ.
int run_file(const std::string& path, const OpFamily& family, bool update) {
  int failures = 0, count = 0;
  std::string text;
  for (const auto& lines : read_blocks(path)) {
    const Block block = parse_block(lines);
    std::vector<std::string> expected = block.input;
    for (const std::string& line : derive(block, family)) expected.push_back(line);
    ++count;
    if (expected != lines && !update) {
      ++failures;
      std::cout << path << ", block " << count << ": derived now\n";
      for (const std::string& line : expected) std::cout << "  " << line << "\n";
    }
    for (const std::string& line : expected) text += line + "\n";
    text += "\n";
  }
  if (update && !text.empty()) std::ofstream(path) << text.substr(0, text.size() - 1);
  std::cout << path << ": " << count << " blocks, " << failures << " differ\n";
  return count == 0 ? 1 : failures;
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  const meshwright_plugin_v1* plugin = meshwright_plugin();
  meshwright::Error error;
  void* object = plugin->create({}, error);
  std::vector<std::string> paths(argv + 1, argv + argc);
  const bool update = std::erase(paths, "--update") > 0;
  int failures = paths.empty() ? 1 : 0;
  for (const std::string& path : paths) {
    failures += meshwright::run_file(path, *static_cast<meshwright::OpFamily*>(object), update);
  }
  plugin->destroy(object);
  return failures > 0 ? 1 : 0;
}
