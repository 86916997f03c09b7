#include "block_joins.h"

#include <algorithm>
#include <map>
#include <string>

#include "meshwright/gather_units.h"
#include "meshwright/plan.h"

namespace meshwright {

namespace {

constexpr std::uint32_t kParts = 16;       // of a model that has fewer blocks than kFewestBlocks
constexpr std::uint32_t kFewestBlocks = 4;
constexpr std::uint32_t kCuts = 16, kShares = 8;  // places to cut at; shares of the blocks that are the other way, one eighth, two, ...

std::string block_with(const ProblemInput& input, const Variable& variable) {
  const Graph& graph = input.graph();
  if (variable.kind == VariableKind::parameter) return block_of(value_name(graph, variable.value));
  const NodeId node = variable.kind == VariableKind::node ? variable.node : graph.values[variable.value].producer;
  return node == kNoId ? "" : block_of(graph.nodes[node].module_path);
}

template <class IsOther>
Choice joined(const std::vector<std::uint32_t>& blocks, const Choice& one, const Choice& other, const IsOther& is_other) {
  Choice choice = one;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    if (is_other(blocks[i])) choice[i] = other[i];
  }
  return choice;
}

void add_new(Choice choice, std::vector<Choice>& choices) {
  if (std::ranges::find(choices, choice) == choices.end()) choices.push_back(std::move(choice));
}

std::uint32_t count_of(const std::vector<std::uint32_t>& blocks) { return blocks.empty() ? 0 : 1 + *std::ranges::max_element(blocks); }

}  // namespace

std::vector<std::uint32_t> block_numbers(const ProblemInput& input, const Problem& problem) {
  std::vector<std::uint32_t> numbers;
  std::map<std::string, std::uint32_t> known;
  std::uint32_t last = 0;
  for (const Variable& variable : problem.variables) {
    if (const std::string block = block_with(input, variable); !block.empty()) last = known.try_emplace(block, static_cast<std::uint32_t>(known.size())).first->second;
    numbers.push_back(last);
  }
  if (known.size() >= kFewestBlocks) return numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint32_t>(i * kParts / numbers.size());
  return numbers;
}

std::vector<Choice> joined_at_cuts(const std::vector<std::uint32_t>& blocks, const Choice& one, const Choice& other) {
  std::vector<Choice> choices;
  const std::uint32_t count = count_of(blocks);
  for (std::uint32_t part = 1; part < kCuts; ++part) {
    const std::uint32_t cut = count * part / kCuts;
    add_new(joined(blocks, one, other, [&](std::uint32_t block) { return block >= cut; }), choices);
  }
  return choices;
}

std::vector<Choice> joined_in_turns(const std::vector<std::uint32_t>& blocks, const Choice& one, const Choice& other) {
  std::vector<Choice> choices;
  for (std::uint32_t share = 1; share < kShares; ++share) {
    add_new(joined(blocks, one, other, [&](std::uint32_t block) { return (block + 1) * share / kShares > block * share / kShares; }), choices);
  }
  return choices;
}

}  // namespace meshwright
