#include "stage_moves.h"

#include <algorithm>

#include "meshwright/recompute.h"

namespace meshwright {

namespace {

constexpr double kLeastLeft = 1.0 / 3;  // of a stage's work

bool is_within(const std::string& path, const std::string& module) { return module.empty() || path == module || path.starts_with(module + "."); }

class StageMover {
 public:
  StageMover(const ModelAnalysis& model, const StageCut& cut, std::uint32_t from, std::uint32_t to) : model_(model), graph_(*model.graph), cut_(cut), from_(from), to_(to) {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (cut.bound[id] && cut.stage_of[id] == from) nodes_.push_back(id);
    }
    if (to < from) std::ranges::reverse(nodes_);
  }

  [[nodiscard]] std::optional<StageMove> run() const {
    std::optional<StageMove> move;
    for (std::string module = block_at_end();;) {
      const std::size_t first = first_of(module);
      if (first > 0) move = StageMove{module, moved_from(first)};
      if (first > 0 && seconds_before(first) >= kLeastLeft * seconds_before(nodes_.size())) return move;
      const std::string inner = child_at_end(module);
      if (inner.empty()) return move;
      module = inner;
    }
  }

 private:
  // The last of the stage's blocks at the end that lies towards the other stage; "" if it has none.
  [[nodiscard]] std::string block_at_end() const {
    std::string name;
    for (const RecomputableBlock& block : blocks_of(model_)) {
      const bool here = std::ranges::any_of(block.nodes, [&](NodeId id) { return cut_.bound[id] && cut_.stage_of[id] == from_; });
      if (here && (name.empty() || to_ > from_)) name = block.name;
    }
    return name;
  }

  // Where in the stage's order, towards the other stage, a module begins: it and all behind it would move.
  [[nodiscard]] std::size_t first_of(const std::string& module) const {
    const auto first = std::ranges::find_if(nodes_, [&](NodeId id) { return is_within(graph_.nodes[id].module_path, module); });
    return static_cast<std::size_t>(first - nodes_.begin());
  }

  // The last module inside of this one; "" if none is.
  [[nodiscard]] std::string child_at_end(const std::string& module) const {
    const std::size_t begin = module.empty() ? 0 : module.size() + 1;
    for (auto id = nodes_.rbegin(); id != nodes_.rend(); ++id) {
      const std::string& path = graph_.nodes[*id].module_path;
      if (is_within(path, module) && path.size() > begin) return path.substr(0, path.find('.', begin));
    }
    return "";
  }

  [[nodiscard]] double seconds_before(std::size_t end) const {
    double sum = 0;
    for (std::size_t i = 0; i < end; ++i) sum += cut_.seconds[nodes_[i]];
    return sum;
  }

  [[nodiscard]] std::vector<std::uint32_t> moved_from(std::size_t first) const {
    std::vector<std::uint32_t> stage_of = cut_.stage_of;
    for (std::size_t i = first; i < nodes_.size(); ++i) stage_of[nodes_[i]] = to_;
    return stage_of;
  }

  const ModelAnalysis& model_;
  const Graph& graph_;
  const StageCut& cut_;
  const std::uint32_t from_, to_;
  std::vector<NodeId> nodes_;  // of the stage, towards the other stage
};

}  // namespace

std::optional<StageMove> move_between_stages(const ModelAnalysis& model, const StageCut& cut, std::uint32_t from, std::uint32_t to) { return StageMover(model, cut, from, to).run(); }

}  // namespace meshwright
