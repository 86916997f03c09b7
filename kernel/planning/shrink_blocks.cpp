#include "shrink_blocks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "block_choices.h"

namespace meshwright {

namespace {

constexpr std::size_t kManyKept = 16;  // blocks; if two of each kind are more, one of each is enough

class BlockDropper {
 public:
  BlockDropper(const Graph& graph, const std::vector<const Plan*>& stages) : graph_(graph), blocks_(model_blocks(graph)) {
    const BlockChoices choices(graph, stages);
    for (const ModelBlock& block : blocks_) {
      structures_.push_back(choices.structure(block));
      kinds_[structures_.back() + choices.choices(block)].push_back(structures_.size() - 1);
    }
  }

  FewBlocks run() {
    const std::size_t each = 2 * kinds_.size() > kManyKept ? 1 : 2;
    std::set<std::size_t> dropped;
    for (const auto& [kind, alike] : kinds_) {
      for (std::size_t i = 1; i + (each - 1) < alike.size(); ++i) {
        if (leave_out(blocks_[alike[i]], structures_[alike[i]])) dropped.insert(alike[i]);
      }
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      made_.blocks.push_back(blocks_[i].name);
      if (!dropped.contains(i)) made_.kept.push_back(blocks_[i].name);
    }
    make_graph(dropped);
    return std::move(made_);
  }

 private:
  // Notes what takes the place of what it hands on; false if nothing can.
  bool leave_out(const ModelBlock& block, const std::string& structure) {
    const auto stays = [&](std::string why) {
      made_.stays.push_back({block.name, std::move(why)});
      return false;
    };
    if (block.hands_on.size() != 1) return stays("it hands on " + std::to_string(block.hands_on.size()) + " values");
    const ValueId made = block.hands_on.front();
    const std::string name = "'" + graph_.values[made].name + "'";
    if (std::ranges::any_of(graph_.outputs, [&](const Output& output) { return output.value == made; })) return stays(name + ", which it hands on, is an output of the model");
    std::vector<ValueId> could;
    for (const ValueId value : block.handed) {
      if (graph_.type(value) == graph_.type(made) && graph_.values[value].requires_gradient == graph_.values[made].requires_gradient) could.push_back(value);
    }
    if (could.empty()) return stays("nothing that it is handed has the type of " + name + ", which it hands on");
    ValueId chosen = could.front();
    if (could.size() > 1) {
      const std::size_t place = place_in_chain(structure);
      if (place >= block.handed.size() || std::ranges::find(could, block.handed[place]) == could.end()) return stays("it is handed " + std::to_string(could.size()) + " values that could take the place of " + name);
      chosen = block.handed[place];
    }
    made_.places.emplace(graph_.values[made].name, graph_.values[chosen].name);
    return true;
  }

  // Which of the values that such a block is handed is what another such block hands on; more than there are: none, or not the same for all.
  [[nodiscard]] std::size_t place_in_chain(const std::string& structure) const {
    constexpr auto kNone = static_cast<std::size_t>(-1);
    std::set<ValueId> made;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (structures_[i] == structure) made.insert(blocks_[i].hands_on.begin(), blocks_[i].hands_on.end());
    }
    std::set<std::size_t> places;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (std::size_t at = 0; structures_[i] == structure && at < blocks_[i].handed.size(); ++at) {
        if (made.contains(blocks_[i].handed[at])) places.insert(at);
      }
    }
    return places.size() == 1 ? *places.begin() : kNone;
  }

  void make_graph(const std::set<std::size_t>& dropped) {
    Graph& graph = made_.graph = graph_;
    std::map<std::string, ValueId> ids;
    for (ValueId id = 0; id < graph.values.size(); ++id) ids.emplace(graph.values[id].name, id);
    std::vector<ValueId> now(graph.values.size());
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const std::string* name = &graph.values[id].name;
      for (auto place = made_.places.find(*name); place != made_.places.end(); place = made_.places.find(*name)) name = &place->second;
      now[id] = ids.at(*name);
    }
    std::set<ValueId> gone;
    for (const std::size_t i : dropped) {
      for (const NodeId id : blocks_[i].nodes) gone.insert(graph.nodes[id].results.begin(), graph.nodes[id].results.end());
    }
    std::erase_if(graph.outputs, [&](const Output& output) { return gone.contains(output.value); });
    for (Node& node : graph.nodes) {
      for (Operand& operand : node.operands) operand.value = now[operand.value];
    }
    drop_unused(graph);
  }

  const Graph& graph_;
  const std::vector<ModelBlock> blocks_;
  std::vector<std::string> structures_;                    // by block
  std::map<std::string, std::vector<std::size_t>> kinds_;  // blocks that are alike and lie alike, ascending
  FewBlocks made_;
};

}  // namespace

FewBlocks with_few_blocks(const Graph& graph, const std::vector<const Plan*>& stages) { return BlockDropper(graph, stages).run(); }

}  // namespace meshwright
