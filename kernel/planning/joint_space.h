// Shardings and what runs again for the backward as one search problem (MAP §5 has two, one after the other). Its nodes are the variables of the model's problem, and beside
// them small ones that hold bytes which depend on two variables.
//
//   op         each strategy, and whether it runs again: then it costs its forward once more
//   view, fork of what an op makes that could run again: each strategy, and whether that does; the same as for the op
//   others     their strategies
//   edge       what is converted for an op that runs again, or to what a backward takes of what is made again, is converted twice
//   saved      what an op keeps for its backward: by its bytes, whether the op runs again, and whether what makes the value does
//   kept       what an op that runs again takes of one that does not: by its bytes
//
// Costs are those of the problem in which what was chosen runs again. Bytes are never more than a program holds: ops that hand each other what they make run again together,
// when the first of it is needed, which is known within bounds only, and storages with several users are shared by all that could keep them. So its lower bound holds for
// any plan that converts no inputs again (decision 064), whatever else runs again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "meshwright/solver.h"
#include "meshwright/strategy.h"
#include "recompute_pins.h"

namespace meshwright {

class JointSpace {
 public:
  // `kept` and `again` are problems of the same model and mesh, in which nothing and in which every block runs again.
  JointSpace(const ProblemInput& input, const Problem& kept, const Problem& again, const RecomputePins& pins);

  // With the costs of the problems; and with those that other spaces have in place of theirs.
  [[nodiscard]] StrategySpace space() const { return priced(kept_.space, again_.space); }
  [[nodiscard]] StrategySpace priced(const StrategySpace& kept, const StrategySpace& again) const;

  // Of the problem's variables alone, by such costs: whatever runs again, a choice costs no less than its layouts do here.
  [[nodiscard]] StrategySpace least(const StrategySpace& kept, const StrategySpace& again) const;
  // Forbids what has a strategy in which layouts cost more than that at least, by `costs` of the space above.
  void forbid_above(TickSum most, const LeastCosts& costs, StrategySpace& space) const;

  // Of an answer: the choice of the problem's variables, which of them run again, and ProblemInput::recomputed.
  [[nodiscard]] std::vector<std::uint32_t> layouts(std::span<const std::uint32_t> answer) const;
  [[nodiscard]] std::vector<bool> again(std::span<const std::uint32_t> answer) const;
  [[nodiscard]] std::vector<std::string> recomputed(std::span<const std::uint32_t> answer) const;

  // An answer whose first values are those of the problem's variables: the others follow from them. Nothing where these contradict each other.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> completed(std::span<const std::uint32_t> variables) const;

  // The answer of a choice where this runs again.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> answer(std::span<const std::uint32_t> layouts, const Recomputation& recomputation) const;

 private:
  using Bytes = std::vector<std::int64_t>;

  // What an edge's table is made of: those of both spaces, which of its ends may run again, whether what comes along it is made again then, whether its user hands it on
  // exactly then, whether anybody asks for that whatever runs again, and whether its user keeps it.
  struct EdgeKind {
    std::uint32_t once, twice;
    bool of_parameter, from_states, to_states, made, follows, asked, saves;
    auto operator<=>(const EdgeKind&) const = default;
  };

  // Such a part of a storage is somebody's in [begin, end); more than one where several microbatches are in flight.
  struct Share {
    std::int64_t part = 1, whole = 1;
    std::int32_t begin = 0, end = 0;
  };

  [[nodiscard]] std::size_t strategies(std::uint32_t variable) const { return kept_.space.nodes[variable].costs.size(); }
  [[nodiscard]] bool is_view(std::uint32_t variable) const;
  [[nodiscard]] bool is_made(const ProblemEdge& edge) const { return may_run_[edge.from] && again_.recomputation.makes(edge.value); }
  [[nodiscard]] std::int32_t backward_at(std::uint32_t variable) const { return 2 * static_cast<std::int32_t>(kept_.variables.size()) - 1 - static_cast<std::int32_t>(variable); }
  [[nodiscard]] const ProblemEdge* edge_of(std::uint32_t variable, ValueId value) const;
  [[nodiscard]] Bytes in_states(std::uint32_t variable, const Bytes& kept, const Bytes& again) const;
  [[nodiscard]] Bytes bytes_taken(const ProblemEdge& edge) const;
  [[nodiscard]] Bytes bytes_made(const ProblemEdge& edge) const;
  [[nodiscard]] std::int64_t bytes_of(const Layout& layout, ValueId value) const;
  static CostTable edge_table(const EdgeKind& kind, const CostTable& once, const CostTable& twice);

  // The edge along which a fork, or a view, takes what it hands on; null for others.
  [[nodiscard]] const ProblemEdge* followed(std::uint32_t variable) const;
  // Whether what a fork or a view hands on is asked for whenever it could be made again.
  [[nodiscard]] bool is_asked(std::uint32_t variable) const;
  void find_asked();
  void find_states();
  void find_times();
  void add_variables();
  void add_memory();
  void add_saved(std::uint32_t variable, ValueId value, const std::vector<SavedTerm>& terms);
  void add_saved_of_made(const ProblemEdge& edge, const std::vector<SavedTerm>& terms);
  [[nodiscard]] std::vector<Share> shares_of(const ProblemEdge& edge, const std::vector<SavedTerm>& terms) const;
  void add_kept_for_others();
  void keep_for(const ProblemEdge& edge, const std::vector<Share>& shares);
  void hold(std::uint32_t node, std::int32_t begin, std::int32_t end, Bytes bytes);
  std::uint32_t add_node(std::string name, std::size_t values);
  // An edge that allows a variable's strategy, run again or not, with some values of a node.
  template <class Allows>
  void tie(std::uint32_t variable, std::uint32_t node, Allows allows);

  const ProblemInput& input_;
  const Problem &kept_, &again_;
  const RecomputePins& pins_;
  StrategySpace frame_;  // without the costs of variables and their edges
  std::vector<ValueId> owner_;                      // by value: of the storage that it lies in
  std::multimap<std::uint32_t, std::uint32_t> edges_to_;  // by variable
  std::vector<std::uint32_t> variable_of_;          // by node
  std::vector<bool> asked_;                         // by value
  std::vector<bool> may_run_;                       // by variable: it has two states
  std::vector<std::int32_t> latest_, earliest_;     // by variable of an op that may run again: when it does
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<Ticks>>, std::uint32_t> ties_;
};

}  // namespace meshwright
