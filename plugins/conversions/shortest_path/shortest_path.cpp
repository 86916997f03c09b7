// Dijkstra's algorithm over layouts, where an edge is one move and its length the move's ticks: exact under the time
// model. Layouts of equal distance are settled in the order of their placements, so the path is always the same one.
#include <algorithm>
#include <map>
#include <queue>

#include "meshwright/conversion.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

struct Reached {
  Ticks ticks = 0;
  Layout previous;
  Move move;
  bool settled = false;
};

using Tree = std::map<Layout, Reached>;

// Settles layouts from `from` outwards until `done` says that enough are.
template <class Done>
Tree grow(const ConversionProblem& problem, const Layout& from, Done done) {
  Tree tree;
  tree[from] = {};
  using Entry = std::pair<Ticks, Layout>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({0, from});
  while (!queue.empty()) {
    const auto [ticks, here] = queue.top();
    queue.pop();
    Reached& reached = tree[here];
    if (reached.settled) continue;
    reached.settled = true;
    if (done(here)) break;
    for (const Move& move : one_step_moves(problem, here)) {
      const Ticks sum = ticks + move_ticks(problem, here, move);
      const auto [found, inserted] = tree.try_emplace(move.result, Reached{sum, here, move, false});
      if (!inserted) {
        if (found->second.settled || found->second.ticks <= sum) continue;
        found->second = Reached{sum, here, move, false};
      }
      queue.push({sum, move.result});
    }
  }
  return tree;
}

class ShortestPath final : public ConversionSearch {
 private:
  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override {
    const Tree tree = grow(problem, from, [&](const Layout& here) { return here == to; });
    ConversionPath path;
    const auto end = tree.find(to);
    if (end == tree.end()) return infeasible("shortest path conversion: the target cannot be reached");
    path.ticks = end->second.ticks;
    for (Layout here = to; here != from;) {
      const Reached& reached = tree.at(here);
      path.moves.push_back(reached.move);
      here = reached.previous;
    }
    std::reverse(path.moves.begin(), path.moves.end());
    return path;
  }

  Result<std::vector<Ticks>> do_price(const ConversionProblem& problem, const Layout& from,
                                      std::span<const Layout> targets) const override {
    std::map<Layout, bool> open;
    for (const Layout& target : targets) open[target] = true;
    const Tree tree = grow(problem, from, [&](const Layout& here) { return open.erase(here) > 0 && open.empty(); });
    std::vector<Ticks> ticks;
    for (const Layout& target : targets) {
      const auto found = tree.find(target);
      ticks.push_back(found == tree.end() ? kForbidden : found->second.ticks);
    }
    return ticks;
  }
};

void* create(const Config&, Error&) { return static_cast<ConversionSearch*>(new ShortestPath); }
void destroy(void* object) { delete static_cast<ConversionSearch*>(object); }

}  // namespace

MESHWRIGHT_PLUGIN("conversions", "shortest_path", "0.1.0", "Apache-2.0", "Dijkstra over layouts: exact under the time model",
                  nullptr, nullptr, 0, create, destroy)

}  // namespace meshwright
