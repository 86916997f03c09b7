// What a block computes, and how a plan has it: texts that are equal for blocks that are alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/plan.h"

namespace meshwright {

struct ModelBlock {
  std::string name;
  std::vector<NodeId> nodes;      // ascending
  std::vector<ValueId> handed;    // values of others that it reads, but for sources, in the order in which it meets them
  std::vector<ValueId> hands_on;  // what others read of it, and outputs, but for the next values of buffers
};

// In the model's order: all nodes of a module that repeats (block_of), and those of modules that blocks share, of what is the block's own.
std::vector<ModelBlock> model_blocks(const Graph& graph);

class BlockChoices {
 public:
  // Of all stages; what it is given outlives it.
  BlockChoices(const Graph& graph, const std::vector<const Plan*>& stages);

  // What it computes.
  [[nodiscard]] std::string structure(const ModelBlock& block) const;
  // And how it lies, in which stage, what of it runs again.
  [[nodiscard]] std::string choices(const ModelBlock& block) const;

 private:
  void read(const Plan& plan);

  const Graph& graph_;
  std::map<std::string, std::string> nodes_;                 // by name; of several stages one behind the other
  std::map<std::pair<std::string, std::string>, std::string> values_;  // by stage and name: parameters and forks
  std::map<std::string, std::vector<std::string>> stages_of_node_;
};

}  // namespace meshwright
