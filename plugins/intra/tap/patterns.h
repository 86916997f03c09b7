// TAP's sharding patterns (§3.4, §4.4): what a GraphNode may do, in terms of Split and Replica, over a set of mesh axes.
//
// The mesh's axes are divided into tensor axes and data axes. Over data axes everything is data parallel: values that have the batch
// are split along it, others are whole. Over tensor axes a GraphNode replicates its weight, which is data parallelism again, or
// splits it along one of its dimensions; the communication follows from the strategy. Where the batch can't be cut over all axes,
// the strategies that cut it over most of them stand in: replicating always works.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_nodes.h"

namespace meshwright::tap {

// 0: the weight is replicated; d + 1: it is split along its dimension d.
using Pattern = std::uint8_t;
inline constexpr Pattern kReplica = 0;

std::string to_string(Pattern pattern);  // "R", "S0", "S1"

class Patterns {
 public:
  using Choices = std::vector<std::uint32_t>;  // strategies, ascending

  // The references must outlive it.
  Patterns(const ProblemInput& input, const Problem& problem, const TrimmedGraph& trimmed);

  // The strategies of a GraphNode that have the pattern; none: it can't be sharded so. kReplica always has some, unless pins forbid
  // every strategy.
  const Choices& of(std::uint32_t graph_node, Pattern pattern, std::uint32_t tensor_axes);

  // Those that an auxiliary variable may take: data parallel over the data axes; over all tensor axes the same or nothing, work on
  // values of the batch being repeated only where it can't be shared, and no partial values being passed on.
  const Choices& following(std::uint32_t variable, std::uint32_t tensor_axes);

  // The patterns that a GraphNode can have, ascending: at least one. kReplica is left out where every strategy left splits the
  // weight, and some along one dimension.
  std::vector<Pattern> available(std::uint32_t graph_node, std::uint32_t tensor_axes);

 private:
  // Of a variable's strategies; shared by those with the same strategies of the same tensors.
  struct Profile {
    std::vector<std::uint32_t> not_data_parallel;        // axes, as bits
    std::vector<std::vector<std::uint32_t>> split_axes;  // by dimension of the GraphNode's weight: axes that split it
  };

  [[nodiscard]] std::string batch_key(std::uint32_t variable) const;
  [[nodiscard]] bool is_data_parallel(ValueId value, Placement placement) const;
  [[nodiscard]] std::uint32_t axes_not_data_parallel(const Variable& variable, const Strategy& strategy) const;
  [[nodiscard]] bool follows(const Variable& variable, const Strategy& strategy, std::uint32_t tensor_axes) const;
  [[nodiscard]] int repeats(const Variable& variable, const Strategy& strategy, std::uint32_t tensor_axes) const;
  template <class Count>
  [[nodiscard]] Choices fewest(const Choices& among, Count count_of) const;
  [[nodiscard]] Choices fewest_violations(std::uint32_t variable, const Choices& among, std::uint32_t axes) const;
  [[nodiscard]] Choices allowed(std::uint32_t variable) const;

  const ProblemInput& input_;
  const Problem& problem_;
  const TrimmedGraph& trimmed_;
  std::set<std::uint32_t> batch_;        // atom classes of the batch: the first dimension of what the user feeds
  std::vector<bool> has_batch_;          // by value
  std::vector<std::uint32_t> profile_;   // by variable
  std::vector<Profile> profiles_;
  std::vector<bool> pinned_;             // by variable: some strategy is forbidden
  std::unordered_map<std::uint64_t, std::unique_ptr<Choices>> made_;
};

}  // namespace meshwright::tap
