// TAP's Algorithm 2 (§4.4): every plan of every unique block is examined, and the best of each makes the plan of the model.
//
// A block's plan gives each of its GraphNodes a pattern. It is routed (Algorithm 3) through the block's first copy and the auxiliary
// variables around it, while the rest of the model is data parallel, and costs what it then communicates (§4.6). Three patterns of
// the six weights of a transformer's layer are 729 plans.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "folding.h"
#include "graph_nodes.h"
#include "meter.h"
#include "patterns.h"
#include "routing.h"

namespace meshwright::tap {

struct WholePlan {
  std::uint32_t tensor_axes = 0;      // as bits; the others are data axes
  std::vector<Pattern> patterns;      // by GraphNode
  std::vector<std::uint32_t> choice;  // by variable
};

struct Examined {
  std::int64_t plans = 0;
  std::int64_t valid = 0;
  std::set<std::size_t> in_parts;  // unique blocks whose plans were too many to be all examined
};

class Deriver {
 public:
  // The references must outlive it. Where a block has more than `max_plans` plans, its GraphNodes are divided into parts, in
  // order, that have no more; all plans of a part are examined while the others are as they are, part after part, until nothing
  // changes, at most kMostRounds times.
  Deriver(const ProblemInput& input, const Problem& problem, const TrimmedGraph& trimmed, const Folding& folding, std::int64_t max_plans,
          Meter& meter);

  // The plan of the model over these tensor axes; nothing, if none is valid.
  std::optional<WholePlan> derive(Router& router, std::uint32_t tensor_axes, Examined& examined);

 private:
  static constexpr int kMostRounds = 3;

  struct Part {
    std::vector<std::uint32_t> nodes;                // GraphNodes
    std::vector<std::vector<Pattern>> patterns;      // what each of them may do
  };

  void find_regions();
  std::vector<Part> parts_of(const Block& block, std::uint32_t tensor_axes);
  bool examine(Router& router, const Part& part, std::span<const std::uint32_t> region, std::uint32_t tensor_axes,
               std::vector<std::uint32_t>& choice, std::vector<Pattern>& best, Examined& examined);
  void set(std::uint32_t graph_node, Pattern pattern, std::uint32_t tensor_axes);

  const Problem& problem_;
  const TrimmedGraph& trimmed_;
  const Folding& folding_;
  const std::int64_t max_plans_;
  Meter& meter_;
  Patterns patterns_;
  std::vector<std::vector<std::uint32_t>> regions_;  // by unique block: variables, ascending
  std::vector<std::uint32_t> everything_;            // all variables
  std::vector<const Router::Choices*> candidates_;   // by variable
};

}  // namespace meshwright::tap
