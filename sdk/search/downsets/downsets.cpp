#include "downsets.h"

#include <algorithm>
#include <unordered_map>

namespace meshwright {

namespace {

using Words = std::vector<std::uint64_t>;

// Sets of one size, by their words. A set is looked up by a sum of random numbers of its nodes, and then compared.
class Level {
 public:
  Level(std::size_t words, std::uint32_t first) : words_(words), first_(first) {}

  // The id of `set`, and whether it is new.
  std::pair<std::uint32_t, bool> insert(std::span<const std::uint64_t> set, std::uint64_t hash) {
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (std::equal(set.begin(), set.end(), words_of(known->second).begin())) return {first_ + known->second, false};
    }
    const auto place = static_cast<std::uint32_t>(hashes_.size());
    by_hash_.emplace(hash, place);
    hashes_.push_back(hash);
    bits_.insert(bits_.end(), set.begin(), set.end());
    return {first_ + place, true};
  }

  [[nodiscard]] std::size_t size() const { return hashes_.size(); }
  [[nodiscard]] std::uint64_t hash(std::size_t place) const { return hashes_[place]; }
  [[nodiscard]] std::span<const std::uint64_t> words_of(std::size_t place) const {
    return std::span(bits_).subspan(place * words_, words_);
  }

 private:
  std::size_t words_;
  std::uint32_t first_;
  std::vector<std::uint64_t> bits_, hashes_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
};

std::uint64_t mixed(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

bool holds(std::span<const std::uint64_t> set, std::uint32_t node) { return (set[node / 64] >> (node % 64) & 1) != 0; }

// Those that can be added to what `smaller` grew into by adding `node`: what could be added before, and what waited for
// `node` alone.
std::vector<std::uint32_t> addable(const DownsetGraph& graph, const std::vector<std::vector<std::uint32_t>>& reads,
                                   std::span<const Downsets::Growth> before, std::uint32_t node, std::span<const std::uint64_t> set) {
  std::vector<std::uint32_t> result;
  for (const Downsets::Growth& growth : before) {
    if (growth.node != node) result.push_back(growth.node);
  }
  for (const std::uint32_t reader : graph.readers[node]) {
    if (std::all_of(reads[reader].begin(), reads[reader].end(), [&](std::uint32_t read) { return holds(set, read); })) result.push_back(reader);
  }
  std::sort(result.begin(), result.end());
  return result;
}

Downsets prefixes(const DownsetGraph& graph) {
  Downsets result;
  result.complete = false;
  result.nodes = graph.readers.size();
  result.reached_from.push_back({0, 0});
  result.growth_begin.push_back(0);
  std::vector<std::uint32_t> waits = graph.reads, ready;
  for (std::uint32_t node = 0; node < waits.size(); ++node) {
    if (waits[node] == 0) ready.push_back(node);
  }
  // The node that became ready last goes first, so that branches stay together.
  std::reverse(ready.begin(), ready.end());
  for (std::uint32_t set = 0; !ready.empty(); ++set) {
    const std::uint32_t node = ready.back();
    ready.pop_back();
    result.growths.push_back({node, set + 1});
    result.growth_begin.push_back(set + 1);
    result.reached_from.push_back({node, set});
    for (const std::uint32_t reader : graph.readers[node]) {
      if (--waits[reader] == 0) ready.push_back(reader);
    }
  }
  result.growth_begin.push_back(static_cast<std::uint32_t>(result.growths.size()));
  return result;
}

}  // namespace

DownsetGraph downset_graph(std::size_t nodes, std::span<const std::pair<std::uint32_t, std::uint32_t>> edges) {
  DownsetGraph graph{std::vector<std::vector<std::uint32_t>>(nodes), std::vector<std::uint32_t>(nodes, 0)};
  for (const auto& [from, to] : edges) graph.readers[from].push_back(to);
  for (auto& readers : graph.readers) {
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (const std::uint32_t reader : readers) ++graph.reads[reader];
  }
  return graph;
}

std::vector<std::uint32_t> Downsets::nodes_of(std::uint32_t set) const {
  std::vector<std::uint32_t> result;
  for (; set != 0; set = reached_from[set].bigger) result.push_back(reached_from[set].node);
  std::sort(result.begin(), result.end());
  return result;
}

Downsets find_downsets(const DownsetGraph& graph, std::size_t most) {
  const std::size_t nodes = graph.readers.size();
  const std::size_t words = (nodes + 63) / 64;
  std::vector<std::vector<std::uint32_t>> reads(nodes);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    for (const std::uint32_t reader : graph.readers[node]) reads[reader].push_back(node);
  }
  Downsets result;
  result.nodes = nodes;
  result.reached_from.push_back({0, 0});
  Level level(words, 0);
  level.insert(Words(words, 0), 0);
  std::uint32_t first = 0;  // set of the level
  for (std::size_t size = 0; size < nodes; ++size) {
    Level next(words, static_cast<std::uint32_t>(result.reached_from.size()));
    for (std::uint32_t place = 0; place < level.size(); ++place) {
      const std::uint32_t set = first + place;
      result.growth_begin.push_back(static_cast<std::uint32_t>(result.growths.size()));
      const Downsets::Growth from = result.reached_from[set];
      std::vector<std::uint32_t> candidates;
      if (set == 0) {
        for (std::uint32_t node = 0; node < nodes; ++node) {
          if (graph.reads[node] == 0) candidates.push_back(node);
        }
      } else {
        candidates = addable(graph, reads, result.grown(from.bigger), from.node, level.words_of(place));
      }
      for (const std::uint32_t node : candidates) {
        const auto known = level.words_of(place);
        Words bigger(known.begin(), known.end());
        bigger[node / 64] |= std::uint64_t{1} << (node % 64);
        const auto [id, is_new] = next.insert(bigger, level.hash(place) + mixed(node));
        if (is_new) result.reached_from.push_back({node, set});
        result.growths.push_back({node, id});
      }
      if (result.reached_from.size() > most) return prefixes(graph);
    }
    first = static_cast<std::uint32_t>(result.reached_from.size() - next.size());
    level = std::move(next);
  }
  const auto end = static_cast<std::uint32_t>(result.growths.size());
  result.growth_begin.resize(result.reached_from.size() + 1, end);
  return result;
}

}  // namespace meshwright
