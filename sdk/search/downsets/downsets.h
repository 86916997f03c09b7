// The downsets of an acyclic graph (ideals in Tarnawski et al. 2020): sets of nodes that hold, with each node, all
// that it reads. Stages that data passes through in order are the differences of a chain of downsets, from the empty
// one to the whole; so a dynamic program over them finds the best stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meshwright {

struct DownsetGraph {
  std::vector<std::vector<std::uint32_t>> readers;  // of each node, each once
  std::vector<std::uint32_t> reads;                 // how many nodes it reads, each once
};

// `edges` are (maker, reader) in 0 .. nodes - 1; repeated ones count once.
DownsetGraph downset_graph(std::size_t nodes, std::span<const std::pair<std::uint32_t, std::uint32_t>> edges);

// Downsets in an order in which each comes behind those that it holds: the empty one first, the whole graph last.
struct Downsets {
  struct Growth {
    std::uint32_t node;    // that is added
    std::uint32_t bigger;  // the downset that this gives
  };

  // False: there were more than wanted, and these are the prefixes of one topological order alone.
  bool complete = true;
  std::size_t nodes = 0;
  std::vector<std::uint32_t> growth_begin;  // into `growths`, of each downset, and one more for the end
  std::vector<Growth> growths;              // in the order of their nodes
  // How each but the empty one was reached first, so that its nodes can be listed.
  std::vector<Growth> reached_from;  // `bigger` is the smaller set here

  [[nodiscard]] std::size_t size() const { return reached_from.size(); }
  [[nodiscard]] std::span<const Growth> grown(std::uint32_t set) const {
    return std::span(growths).subspan(growth_begin[set], growth_begin[set + 1] - growth_begin[set]);
  }
  // Ascending.
  [[nodiscard]] std::vector<std::uint32_t> nodes_of(std::uint32_t set) const;
};

// All downsets, or those of one topological order if there are more than `most`. The graph has no cycle.
Downsets find_downsets(const DownsetGraph& graph, std::size_t most);

}  // namespace meshwright
