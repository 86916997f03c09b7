// Dijkstra's algorithm over layouts, where an edge is one move and its length the move's ticks: exact under the time
// model. Layouts of equal distance are settled in the order in which they were met, so the path is always the same.
#include <algorithm>
#include <map>
#include <queue>

#include "meshwright/conversion.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// All layouts that moves reach from some starting points, as a graph with numbered nodes. Built once for a shape and
// shared by all searches in it.
class MoveGraph {
 public:
  struct Arc {
    std::uint32_t to;
    Ticks ticks;
    Move move;
  };

  MoveGraph(const ConversionProblem& problem, std::span<const Layout> starts) {
    for (const Layout& start : starts) number(start);
    for (std::uint32_t at = 0; at < layouts_.size(); ++at) {  // grows while it runs
      const Layout here = layouts_[at];
      std::vector<Arc> arcs;
      for (const Move& move : one_step_moves(problem, here)) {
        arcs.push_back({number(move.result), move_ticks(problem, here, move), move});
      }
      arcs_.push_back(std::move(arcs));
    }
  }

  [[nodiscard]] std::uint32_t find(const Layout& layout) const {
    const auto found = numbers_.find(layout);
    return found == numbers_.end() ? kNone : found->second;
  }
  [[nodiscard]] const std::vector<Arc>& arcs(std::uint32_t at) const { return arcs_[at]; }
  [[nodiscard]] std::size_t size() const { return layouts_.size(); }

 private:
  std::uint32_t number(const Layout& layout) {
    const auto [found, inserted] = numbers_.try_emplace(layout, static_cast<std::uint32_t>(layouts_.size()));
    if (inserted) layouts_.push_back(layout);
    return found->second;
  }

  std::vector<Layout> layouts_;
  std::map<Layout, std::uint32_t> numbers_;
  std::vector<std::vector<Arc>> arcs_;
};

struct Distances {
  std::vector<Ticks> ticks;
  std::vector<std::uint32_t> previous;
  std::vector<const Move*> move;
};

Distances search(const MoveGraph& graph, std::uint32_t from) {
  Distances reached{std::vector<Ticks>(graph.size(), kForbidden), std::vector<std::uint32_t>(graph.size(), kNone),
                    std::vector<const Move*>(graph.size(), nullptr)};
  using Entry = std::pair<Ticks, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  reached.ticks[from] = 0;
  queue.push({0, from});
  while (!queue.empty()) {
    const auto [ticks, here] = queue.top();
    queue.pop();
    if (ticks > reached.ticks[here]) continue;
    for (const MoveGraph::Arc& arc : graph.arcs(here)) {
      const Ticks sum = ticks + arc.ticks;
      if (sum >= reached.ticks[arc.to]) continue;
      reached.ticks[arc.to] = sum;
      reached.previous[arc.to] = here;
      reached.move[arc.to] = &arc.move;
      queue.push({sum, arc.to});
    }
  }
  return reached;
}

class ShortestPath final : public ConversionSearch {
 private:
  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override {
    const MoveGraph graph(problem, std::span(&from, 1));
    const Distances reached = search(graph, 0);
    const std::uint32_t end = graph.find(to);
    if (end == kNone) return infeasible("shortest path conversion: the target cannot be reached");
    ConversionPath path;
    path.ticks = reached.ticks[end];
    for (std::uint32_t here = end; here != 0; here = reached.previous[here]) path.moves.push_back(*reached.move[here]);
    std::reverse(path.moves.begin(), path.moves.end());
    return path;
  }

  Result<std::vector<Ticks>> do_price_all(const ConversionProblem& problem,
                                          std::span<const Layout> layouts) const override {
    const MoveGraph graph(problem, layouts);
    std::vector<Ticks> ticks;
    ticks.reserve(layouts.size() * layouts.size());
    for (const Layout& from : layouts) {
      const Distances reached = search(graph, graph.find(from));
      for (const Layout& to : layouts) ticks.push_back(reached.ticks[graph.find(to)]);
    }
    return ticks;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("conversions", "shortest_path", "0.1.0", "Apache-2.0", "Dijkstra over layouts: exact under the time model",
                  nullptr, nullptr, 0, (create_plugin<ConversionSearch, ShortestPath>), destroy_plugin<ConversionSearch>)

}  // namespace meshwright
