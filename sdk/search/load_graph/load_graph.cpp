#include "load_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace meshwright {

namespace {

// Nodes by the piece that they are in; a piece is named by one of its nodes.
class Pieces {
 public:
  explicit Pieces(std::size_t nodes) : parent_(nodes) { std::iota(parent_.begin(), parent_.end(), 0U); }

  std::uint32_t find(std::uint32_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void join(std::uint32_t a, std::uint32_t b) { parent_[find(b)] = find(a); }

 private:
  std::vector<std::uint32_t> parent_;
};

using EdgeSet = std::set<std::pair<std::uint32_t, std::uint32_t>>;

void join_groups(const LoadProblem& problem, Pieces& pieces) {
  std::map<std::uint32_t, std::uint32_t> first;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    pieces.join(first.emplace(problem.nodes[node].group, node).first->second, node);
  }
}

// Edges between pieces that stages must not turn around (placement.h, LoadProblem).
EdgeSet ordered_edges(const LoadProblem& problem, Pieces& pieces) {
  std::set<std::uint32_t> forward;  // pieces with a forward node
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    if (!problem.nodes[node].backward) forward.insert(pieces.find(node));
  }
  EdgeSet edges;
  for (const PlacementEdge& edge : problem.edges) {
    const std::uint32_t from = pieces.find(edge.from), to = pieces.find(edge.to);
    const bool back_from = problem.nodes[edge.from].backward, back_to = problem.nodes[edge.to].backward;
    if (from == to) continue;
    if (!back_from && !back_to) edges.emplace(from, to);
    if (back_from && back_to && (!forward.contains(from) || !forward.contains(to))) edges.emplace(to, from);
  }
  return edges;
}

// Strongly connected components (Tarjan 1972), without recursion.
class Components {
 public:
  Components(std::size_t nodes, const EdgeSet& edges) : readers_(nodes), index_(nodes, 0), low_(nodes, 0), open_(nodes, false) {
    for (const auto& [from, to] : edges) readers_[from].push_back(to);
  }

  void join_all(Pieces& pieces) {
    for (std::uint32_t node = 0; node < readers_.size(); ++node) {
      if (index_[node] == 0) visit(node, pieces);
    }
  }

 private:
  void enter(std::uint32_t node) {
    index_[node] = low_[node] = ++count_;
    open_[node] = true;
    stack_.push_back(node);
    calls_.emplace_back(node, 0);
  }

  void visit(std::uint32_t root, Pieces& pieces) {
    enter(root);
    while (!calls_.empty()) {
      const std::uint32_t node = calls_.back().first;
      if (calls_.back().second < readers_[node].size()) {
        const std::uint32_t reader = readers_[node][calls_.back().second++];
        if (index_[reader] == 0) {
          enter(reader);
        } else if (open_[reader]) {
          low_[node] = std::min(low_[node], index_[reader]);
        }
        continue;
      }
      calls_.pop_back();
      if (!calls_.empty()) low_[calls_.back().first] = std::min(low_[calls_.back().first], low_[node]);
      if (low_[node] == index_[node]) close(node, pieces);
    }
  }

  void close(std::uint32_t node, Pieces& pieces) {
    for (std::uint32_t member = stack_.back();; member = stack_.back()) {
      stack_.pop_back();
      open_[member] = false;
      pieces.join(node, member);
      if (member == node) return;
    }
  }

  std::vector<std::vector<std::uint32_t>> readers_;
  std::vector<std::uint32_t> index_, low_, stack_;
  std::vector<bool> open_;
  std::vector<std::pair<std::uint32_t, std::size_t>> calls_;
  std::uint32_t count_ = 0;
};

EdgeSet edges_between(const EdgeSet& edges, Pieces& pieces) {
  EdgeSet result;
  for (const auto& [from, to] : edges) {
    if (pieces.find(from) != pieces.find(to)) result.emplace(pieces.find(from), pieces.find(to));
  }
  return result;
}

struct Weight {
  bool takes_time = false;
  bool takes_room = false;
  bool accelerator = true;
};

std::map<std::uint32_t, Weight> weigh(const LoadProblem& problem, Pieces& pieces) {
  double bytes = 0;
  for (const LoadNode& node : problem.nodes) bytes += node.memory_bytes;
  const bool room_for_all = bytes <= problem.accelerator_bytes;
  std::map<std::uint32_t, Weight> weights;
  for (std::uint32_t id = 0; id < problem.nodes.size(); ++id) {
    const LoadNode& node = problem.nodes[id];
    Weight& weight = weights[pieces.find(id)];
    weight.takes_time |= node.accelerator_seconds > 0 || node.host_seconds > 0;
    weight.takes_room |= node.memory_bytes > 0 && !room_for_all;
    weight.accelerator &= node.accelerator;
  }
  return weights;
}

// A piece that takes neither time nor room and that edges of any kind join with one other piece, or with none, goes
// there: wherever it was, that moves no load up, and no stage order breaks. Repeated until there is none.
void join_idle_leaves(const LoadProblem& problem, Pieces& pieces) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::map<std::uint32_t, Weight> weights = weigh(problem, pieces);
    std::map<std::uint32_t, std::set<std::uint32_t>> neighbours;
    for (const PlacementEdge& edge : problem.edges) {
      const std::uint32_t from = pieces.find(edge.from), to = pieces.find(edge.to);
      if (from == to) continue;
      neighbours[from].insert(to);
      neighbours[to].insert(from);
    }
    std::set<std::uint32_t> touched;
    for (const auto& [piece, weight] : weights) {
      if (weight.takes_time || weight.takes_room || neighbours[piece].size() > 1 || weights.size() == 1) continue;
      const bool alone = neighbours[piece].empty();
      const std::uint32_t anyone = weights.begin()->first == piece ? weights.rbegin()->first : weights.begin()->first;
      const std::uint32_t other = alone ? anyone : *neighbours[piece].begin();
      if (!weight.accelerator && weights.at(other).accelerator) continue;
      if (touched.contains(piece) || touched.contains(other)) continue;
      touched.insert(piece);
      touched.insert(other);
      pieces.join(other, piece);
      changed = true;
    }
  }
}

}  // namespace

LoadGraph make_load_graph(const LoadProblem& problem) {
  Pieces pieces(problem.nodes.size());
  join_groups(problem, pieces);
  const EdgeSet edges = ordered_edges(problem, pieces);
  Components(problem.nodes.size(), edges).join_all(pieces);
  join_idle_leaves(problem, pieces);

  LoadGraph graph;
  std::map<std::uint32_t, std::uint32_t> number;
  for (std::uint32_t id = 0; id < problem.nodes.size(); ++id) {
    const auto [known, is_new] = number.emplace(pieces.find(id), static_cast<std::uint32_t>(graph.pieces.size()));
    if (is_new) graph.pieces.emplace_back();
    LoadPiece& piece = graph.pieces[known->second];
    const LoadNode& node = problem.nodes[id];
    piece.accelerator_seconds += node.accelerator_seconds;
    piece.host_seconds += node.host_seconds;
    piece.memory_bytes += node.memory_bytes;
    piece.accelerator &= node.accelerator;
    piece.nodes.push_back(id);
  }
  for (const auto& [from, to] : edges_between(edges, pieces)) graph.edges.emplace_back(number[from], number[to]);

  std::map<std::uint32_t, std::set<std::uint32_t>> touching;  // by node: its piece and its readers' pieces
  for (const PlacementEdge& edge : problem.edges) {
    if (problem.nodes[edge.from].transfer_seconds == 0) continue;
    touching[edge.from].insert(number[pieces.find(edge.from)]);
    touching[edge.from].insert(number[pieces.find(edge.to)]);
  }
  // Who made it plays no part: an accelerator pays for a value that only some of its pieces are on.
  std::map<std::set<std::uint32_t>, double> values;
  for (const auto& [node, touched] : touching) {
    if (touched.size() > 1) values[touched] += problem.nodes[node].transfer_seconds;
  }
  for (const auto& [touched, seconds] : values) {
    for (const std::uint32_t piece : touched) graph.pieces[piece].values.push_back(static_cast<std::uint32_t>(graph.values.size()));
    graph.values.push_back({seconds, {touched.begin(), touched.end()}});
  }
  return graph;
}

}  // namespace meshwright
