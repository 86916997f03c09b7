#include "op_case.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace meshwright::test {

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
  if (text.front() == '[') return integers_of(text);
  if (is_integer(text)) return static_cast<std::int64_t>(std::stoll(text));
  if (is_number(text)) return std::stod(text);
  return text;
}

// "float64[2, 3] gradient below 7" → the type; the rest stays in `text`.
TensorType take_type(std::string& text) {
  const std::size_t open = text.find('['), close = text.find(']');
  TensorType type{parse_dtype(text.substr(0, open)).value(), integers_of(text.substr(open, close - open + 1))};
  text.erase(0, close + 1);
  return type;
}

OpCase parse_block(const std::vector<std::string>& lines) {
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
    if (word != "operand" && word != "result") continue;
    const bool operand = word == "operand";
    if (operand) in >> name;
    std::getline(in >> std::ws, rest);
    const auto id = static_cast<ValueId>(graph.values.size());
    Value value{operand ? name : "result" + std::to_string(node.results.size()), take_type(rest), operand ? kNoId : 0, false};
    const std::size_t gradient = rest.find(" gradient");
    value.requires_gradient = gradient != std::string::npos;
    if (value.requires_gradient) rest.erase(gradient, sizeof(" gradient") - 1);
    if (operand) {
      graph.sources.push_back({value.requires_gradient ? SourceKind::parameter : SourceKind::user_input, id, {name}});
      node.operands.push_back({name, id});
      op_case.draws.push_back(rest.empty() ? rest : rest.substr(1));
    } else {
      node.results.push_back(id);
    }
    graph.values.push_back(std::move(value));
  }
  graph.nodes.push_back(std::move(node));
  mark_gradients(graph);
  return op_case;
}

// splitmix64
struct Random {
  std::uint64_t state;
  double unit() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return static_cast<double>((z ^ (z >> 31U)) >> 11U) / 9007199254740992.0;
  }
};

}  // namespace

std::vector<std::string> families_with_cases() {
  std::vector<std::string> families;
  for (const auto& folder : std::filesystem::directory_iterator(SOURCE_FOLDER "/plugins/ops")) {
    if (std::filesystem::exists(folder.path() / "cases.txt")) families.push_back(folder.path().filename().string());
  }
  std::sort(families.begin(), families.end());
  return families;
}

std::vector<OpCase> read_cases(const std::string& family) {
  std::ifstream file(SOURCE_FOLDER "/plugins/ops/" + family + "/cases.txt");
  std::vector<OpCase> cases;
  std::vector<std::string> lines;
  const auto finish = [&] {
    if (lines.empty()) return;
    cases.push_back(parse_block(lines));
    cases.back().file = family;
    cases.back().number = static_cast<int>(cases.size());
    lines.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) finish();
    else if (line[0] != '#') lines.push_back(line);
  }
  finish();
  return cases;
}

std::map<ValueId, Tensor> draw_sources(const OpCase& op_case, std::uint64_t seed) {
  Random random{seed};
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
      if (word == "below") number = floating ? limit * unit : static_cast<double>(static_cast<std::int64_t>(limit * unit));
      tensor.set(at, number);
    }
    sources.emplace(id, std::move(tensor));
  }
  return sources;
}

}  // namespace meshwright::test
