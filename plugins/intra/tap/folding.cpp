#include "folding.h"

#include <algorithm>
#include <map>

namespace meshwright::tap {

namespace {

constexpr char kSeparator = '.';

// The first `depth` parts of a scope; all of it, where it has fewer.
std::string prefix_of(const std::string& scope, std::size_t depth) {
  std::size_t end = 0;
  for (; depth > 0 && end != std::string::npos; --depth) end = scope.find(kSeparator, end == 0 ? 0 : end + 1);
  return scope.substr(0, end);
}

std::size_t depth_of(const std::string& scope) {
  return 1 + static_cast<std::size_t>(std::count(scope.begin(), scope.end(), kSeparator));
}

// What a block is made of, and how that is joined.
std::string composition(const std::vector<GraphNode>& nodes, const Block& block) {
  std::string text;
  for (const std::uint32_t at : block.nodes) {
    text += nodes[at].kind;
    for (const std::uint32_t producer : nodes[at].producers) {
      const auto inside = std::lower_bound(block.nodes.begin(), block.nodes.end(), producer);
      if (inside != block.nodes.end() && *inside == producer) text += " <" + std::to_string(inside - block.nodes.begin());
    }
    text += "\n";
  }
  return text;
}

std::vector<std::vector<std::uint32_t>> classes_of(const std::vector<GraphNode>& nodes, const std::vector<Block>& blocks) {
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::vector<std::uint32_t>> classes;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    const auto [found, inserted] = numbers.try_emplace(composition(nodes, blocks[i]), static_cast<std::uint32_t>(classes.size()));
    if (inserted) classes.emplace_back();
    classes[found->second].push_back(i);
  }
  return classes;
}

// How often the block occurs whose copies have most GraphNodes: two equal embeddings do not make equal halves of a model.
std::int64_t copies_of_largest(const std::vector<Block>& blocks, const std::vector<std::vector<std::uint32_t>>& classes) {
  std::pair<std::size_t, std::size_t> largest;  // GraphNodes, copies
  for (const auto& one : classes) largest = std::max(largest, {one.size() * blocks[one.front()].nodes.size(), one.size()});
  return static_cast<std::int64_t>(largest.second);
}

Folding unpruned(const std::vector<GraphNode>& nodes, bool by_name) {
  Folding folding;
  folding.by_name = by_name;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    folding.blocks.push_back({nodes[i].scope, {i}});
    folding.unique.push_back({i});
  }
  return folding;
}

// One level of the tree of names (lines 4 and 5).
std::vector<Block> level(const std::vector<GraphNode>& nodes, const std::vector<std::uint32_t>& calls, std::size_t depth) {
  std::map<std::pair<std::string, std::uint32_t>, std::size_t> numbers;
  std::vector<Block> blocks;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    std::string prefix = prefix_of(nodes[i].scope, depth);
    const auto [found, inserted] = numbers.try_emplace({prefix, calls[i]}, blocks.size());
    if (inserted) blocks.push_back({std::move(prefix), {}});
    blocks[found->second].nodes.push_back(i);
  }
  return blocks;
}

Folding fold_by_name(const std::vector<GraphNode>& nodes, std::int64_t min_duplicates) {
  std::map<std::pair<std::string, std::string>, std::uint32_t> seen;
  std::vector<std::uint32_t> calls;  // how often the same was met before: the call of its module
  std::size_t deepest = 0;
  for (const GraphNode& node : nodes) {
    calls.push_back(seen[{node.scope, node.kind}]++);
    deepest = std::max(deepest, depth_of(node.scope));
  }
  Folding folding = unpruned(nodes, true);
  folding.unique = classes_of(nodes, folding.blocks);
  for (std::size_t depth = deepest; depth > 0; --depth) {
    std::vector<Block> blocks = level(nodes, calls, depth);
    std::vector<std::vector<std::uint32_t>> classes = classes_of(nodes, blocks);
    if (copies_of_largest(blocks, classes) < min_duplicates) break;
    folding.blocks = std::move(blocks);
    folding.unique = std::move(classes);
  }
  return folding;
}

// A run of equal pieces: `copies` of `period` GraphNodes from `first` on.
struct Run {
  std::size_t first = 0, period = 0, copies = 0;
  [[nodiscard]] std::size_t covers() const { return period * copies; }
};

// The run in [begin, end) that covers most; of equal ones the one with the shortest period.
Run longest_run(const std::vector<GraphNode>& nodes, std::size_t begin, std::size_t end, std::int64_t min_duplicates) {
  Run best;
  for (std::size_t period = 1; 2 * period <= end - begin; ++period) {
    std::size_t equal = 0;  // how many GraphNodes up to here are what stands a period later
    for (std::size_t i = begin; i + period <= end; ++i) {
      if (i + period < end && nodes[i].kind == nodes[i + period].kind) {
        ++equal;
        continue;
      }
      const Run run{i - equal, period, equal / period + 1};
      equal = 0;
      if (run.copies >= 2 && static_cast<std::int64_t>(run.copies) >= min_duplicates && run.covers() > best.covers()) best = run;
    }
  }
  return best;
}

void cut(const std::vector<GraphNode>& nodes, std::size_t begin, std::size_t end, std::int64_t min_duplicates, std::vector<Block>& blocks) {
  const Run run = longest_run(nodes, begin, end, min_duplicates);
  if (run.copies == 0) {
    for (std::size_t i = begin; i < end; ++i) blocks.push_back({"", {static_cast<std::uint32_t>(i)}});
    return;
  }
  cut(nodes, begin, run.first, min_duplicates, blocks);
  for (std::size_t copy = 0; copy < run.copies; ++copy) {
    Block& block = blocks.emplace_back();
    for (std::size_t i = 0; i < run.period; ++i) block.nodes.push_back(static_cast<std::uint32_t>(run.first + copy * run.period + i));
  }
  cut(nodes, run.first + run.covers(), end, min_duplicates, blocks);
}

}  // namespace

Folding fold(const std::vector<GraphNode>& nodes, std::int64_t min_duplicates) {
  const bool by_name = std::none_of(nodes.begin(), nodes.end(), [](const GraphNode& node) { return node.scope.empty(); });
  if (min_duplicates <= 1) return unpruned(nodes, by_name);
  if (by_name) return fold_by_name(nodes, min_duplicates);
  Folding folding;
  folding.by_name = false;
  cut(nodes, 0, nodes.size(), min_duplicates, folding.blocks);
  folding.unique = classes_of(nodes, folding.blocks);
  return folding;
}

}  // namespace meshwright::tap
