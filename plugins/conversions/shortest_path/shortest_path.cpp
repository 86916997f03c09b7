// Dijkstra's algorithm over layouts, where an edge is one move and its length the move's ticks: exact under the time
// model. Layouts of equal distance are settled in the order in which they were met, so the path is always the same.
#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "meshwright/conversion.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// The layouts that moves reach, as a graph with numbered nodes. It grows as searches ask for it, and what one search
// found out serves the next.
class MoveGraph {
 public:
  struct Arc {
    std::uint32_t to;
    Ticks ticks, host_ticks;
    Move move;
  };

  explicit MoveGraph(const ConversionProblem& problem) : problem_(problem) {}

  std::uint32_t number(const Layout& layout) {
    const auto [found, inserted] = numbers_.try_emplace(layout, static_cast<std::uint32_t>(layouts_.size()));
    if (inserted) {
      layouts_.push_back(layout);
      arcs_.emplace_back();
      expanded_.push_back(false);
    }
    return found->second;
  }

  const std::vector<Arc>& arcs(std::uint32_t at) {
    if (!expanded_[at]) {
      expanded_[at] = true;
      const Layout here = layouts_[at];
      std::vector<Arc> arcs;
      for (const Move& move : one_step_moves(problem_, here)) {
        const MovePrice price = move_price(problem_, here, move);
        arcs.push_back({number(move.result), price.ticks, price.host_ticks, move});
      }
      arcs_[at] = std::move(arcs);
    }
    return arcs_[at];
  }

 private:
  const ConversionProblem& problem_;
  std::vector<Layout> layouts_;
  std::map<Layout, std::uint32_t> numbers_;
  std::vector<std::vector<Arc>> arcs_;
  std::vector<bool> expanded_;
};

struct Reached {
  Ticks ticks = kForbidden;
  std::uint32_t previous = kNone;
  const MoveGraph::Arc* arc = nullptr;  // by which it was reached; the graph's
  Ticks host_ticks = 0;
};

// Settles nodes from `from` outwards until all of these targets are, each of which is named once, or no more can be reached.
std::vector<Reached> search(MoveGraph& graph, std::uint32_t from, std::span<const std::uint32_t> targets) {
  std::vector<bool> is_wanted(*std::ranges::max_element(targets) + 1);
  for (const std::uint32_t target : targets) is_wanted[target] = true;
  std::size_t left = targets.size();
  std::vector<Reached> reached(from + 1);
  using Entry = std::pair<Ticks, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  reached[from].ticks = 0;
  queue.push({0, from});
  while (!queue.empty()) {
    const auto [ticks, here] = queue.top();
    queue.pop();
    if (ticks > reached[here].ticks) continue;
    if (here < is_wanted.size() && is_wanted[here]) {
      is_wanted[here] = false;
      if (--left == 0) break;
    }
    for (const MoveGraph::Arc& arc : graph.arcs(here)) {
      if (arc.to >= reached.size()) reached.resize(arc.to + 1);
      const Ticks sum = ticks + arc.ticks;
      if (sum >= reached[arc.to].ticks) continue;
      reached[arc.to] = {sum, here, &arc, reached[here].host_ticks + arc.host_ticks};
      queue.push({sum, arc.to});
    }
  }
  return reached;
}

class ShortestPath final : public ConversionSearch {
 private:
  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override {
    MoveGraph graph(problem);
    const std::uint32_t start = graph.number(from), end = graph.number(to);
    const std::vector<Reached> reached = search(graph, start, std::array{end});
    if (end >= reached.size() || reached[end].ticks >= kForbidden) {
      return infeasible("shortest path conversion: the target cannot be reached");
    }
    ConversionPath path;
    path.ticks = reached[end].ticks;
    for (std::uint32_t here = end; here != start; here = reached[here].previous) path.moves.push_back(reached[here].arc->move);
    std::reverse(path.moves.begin(), path.moves.end());
    return path;
  }

  Result<std::vector<PathPrice>> do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const override {
    MoveGraph graph(problem);
    std::vector<std::uint32_t> numbers;
    for (const Layout& layout : layouts) numbers.push_back(graph.number(layout));
    std::vector<PathPrice> prices;
    prices.reserve(layouts.size() * layouts.size());
    for (const std::uint32_t from : numbers) {
      const std::vector<Reached> reached = search(graph, from, numbers);
      for (const std::uint32_t to : numbers) prices.push_back(to < reached.size() ? PathPrice{reached[to].ticks, reached[to].host_ticks} : PathPrice{});
    }
    return prices;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("conversions", "shortest_path", "0.1.0", "Apache-2.0", "Dijkstra over layouts: exact under the time model",
                  nullptr, nullptr, 0, (create_plugin<ConversionSearch, ShortestPath>), destroy_plugin<ConversionSearch>)

}  // namespace meshwright
