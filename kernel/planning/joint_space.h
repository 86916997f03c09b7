// Shardings and what runs again for the backward as one search problem (MAP §5 has two, one after the other). Its nodes are the variables of the model's problem, and beside
// them small ones that hold bytes which depend on two variables.
//
//   op         each strategy, and whether it runs again: then it costs its forward once more
//   view, fork of what an op makes that could run again: each strategy, and whether that does; the same as for the op
//   fork of what backwards take, view that shows it, maker of what one backward takes: each strategy, and whether all of these have it converted again (decision 064)
//   others     their strategies
//   edge       what is converted for an op that runs again, or to what a backward takes of what is made or converted again, is converted twice
//   saved      what an op keeps for its backward: by its bytes, whether the op runs again, and whether what makes the value does or converts it again
//   kept       what an op that runs again takes of one that does not: by its bytes
//   source     what is converted again, as its maker has it: by its bytes
//
// Costs are those of the problem in which what was chosen runs again. Bytes are never more than a program holds: ops that hand each other what they make run again together,
// when the first of it is needed, which is known within bounds only, and storages with several users are shared by all that could keep them. So its lower bound holds for
// any plan that converts no inputs again, or all of a fork's, whatever else runs again.
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
  // Problems of the same model and mesh, with the same strategies; all of them outlive this.
  struct Problems {
    const Problem& kept;                 // nothing runs again
    const Problem& again;                // every block does
    const Problem* converted = nullptr;  // every operand is converted again that could be; null: that is no choice
  };
  JointSpace(const ProblemInput& input, const Problems& problems, const RecomputePins& pins);

  // With the costs of the problems; and with those that other spaces have in place of the first two, in which nothing is converted again.
  [[nodiscard]] StrategySpace space() const { return priced(kept_.space, again_.space, converted_ == nullptr ? nullptr : &converted_->space); }
  [[nodiscard]] StrategySpace priced(const StrategySpace& kept, const StrategySpace& again) const { return priced(kept, again, nullptr); }

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

  // The answer of a choice where this runs again; without what is converted again so that no less is kept for that.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> answer(std::span<const std::uint32_t> layouts, const Recomputation& recomputation) const;

 private:
  using Bytes = std::vector<std::int64_t>;

  // A variable's values are its strategies, for each state that it may be in; in this order.
  enum class State : std::uint8_t { kept, again, converted };
  struct States {
    bool again = false, converted = false;
    [[nodiscard]] std::uint32_t count() const { return 1U + (again ? 1U : 0U) + (converted ? 1U : 0U); }
    [[nodiscard]] State at(std::uint32_t number) const { return number == 0 ? State::kept : number == 1 && again ? State::again : State::converted; }
    auto operator<=>(const States&) const = default;
  };

  // What an edge's table is made of: those of the spaces; the states of its ends; whether what comes along it is made again with its maker, whether its user hands it on
  // exactly then, whether anybody asks for that whatever runs again, and whether its user keeps it; whether its user hands on what is converted again, and exactly where
  // its maker does.
  struct EdgeKind {
    std::uint32_t once, twice, converted;
    States from, to;
    bool of_parameter, made, follows, asked, saves, hands_on, goes_on;
    auto operator<=>(const EdgeKind&) const = default;
  };

  // Such a part of a storage is somebody's in [begin, end); more than one where several microbatches are in flight.
  struct Share {
    std::int64_t part = 1, whole = 1;
    std::int32_t begin = 0, end = 0;
    [[nodiscard]] Bytes of(Bytes bytes) const;
  };

  // Where what is converted again enters the states of variables: the first of those that hand it on, and the edge along which it comes as it is kept. Null for a maker
  // whose user takes it without a fork.
  struct Entry {
    std::uint32_t variable = kNoId;
    const ProblemEdge* source = nullptr;
    auto operator<=>(const Entry&) const = default;
  };
  // Who takes for its backward what is converted again, and the shares of it, as it is kept, that they hold. By strategy of whoever has it so: whether that is no less than
  // any of them takes, and is not in the space.
  struct Takers {
    std::vector<const ProblemEdge*> edges;
    std::vector<Share> shares;
    std::vector<bool> useless = {};
  };

  [[nodiscard]] std::size_t strategies(std::uint32_t variable) const { return kept_.space.nodes[variable].costs.size(); }
  [[nodiscard]] States states(std::uint32_t variable) const { return {may_run_[variable], converts_[variable]}; }
  [[nodiscard]] State state_of(std::uint32_t variable, std::uint32_t value) const { return states(variable).at(value / static_cast<std::uint32_t>(strategies(variable))); }
  [[nodiscard]] bool is_view(std::uint32_t variable) const;
  [[nodiscard]] bool is_made(const ProblemEdge& edge) const { return may_run_[edge.from] && again_.recomputation.makes(edge.value); }
  [[nodiscard]] std::int32_t backward_at(std::uint32_t variable) const { return 2 * static_cast<std::int32_t>(kept_.variables.size()) - 1 - static_cast<std::int32_t>(variable); }
  [[nodiscard]] const ProblemEdge* edge_of(std::uint32_t variable, ValueId value) const;
  [[nodiscard]] Bytes in_states(std::uint32_t variable, const Bytes& kept, const Bytes& again, const Bytes& converted) const;
  [[nodiscard]] Bytes bytes_taken(const ProblemEdge& edge) const;
  [[nodiscard]] Bytes bytes_made(const ProblemEdge& edge) const;
  [[nodiscard]] std::int64_t bytes_of(const Layout& layout, ValueId value) const;
  // By spaces in which nothing runs again, in which all does, and in which all is converted again; null: nothing is.
  [[nodiscard]] StrategySpace priced(const StrategySpace& kept, const StrategySpace& again, const StrategySpace* converted) const;
  void price_variable(std::uint32_t variable, const std::vector<Ticks>& kept, const std::vector<Ticks>& again, const std::vector<Ticks>* converted, std::vector<Ticks>& costs) const;
  [[nodiscard]] EdgeKind kind_of(std::uint32_t number, std::uint32_t once, std::uint32_t twice, std::uint32_t converted) const;
  static CostTable edge_table(const EdgeKind& kind, const CostTable& once, const CostTable& twice, const CostTable& converted);

  // The edge along which a fork, or a view, takes what it hands on; null for others.
  [[nodiscard]] const ProblemEdge* followed(std::uint32_t variable) const;
  // Whether what a fork or a view hands on is asked for whenever it could be made again.
  [[nodiscard]] bool is_asked(std::uint32_t variable) const;
  void find_asked();
  void find_states();
  void find_converted();
  void find_times();

  // Whether what a backward takes along an edge is converted again where its maker's state says so.
  [[nodiscard]] bool is_convertible(const ProblemEdge& edge) const;
  [[nodiscard]] bool is_converting(const ProblemEdge& edge) const { return converts_[edge.from] && is_convertible(edge); }
  [[nodiscard]] Entry entry_of(std::uint32_t variable) const;
  // Whether a variable with that state does what the one does along whose edge it takes what it hands on.
  [[nodiscard]] bool goes_on(const ProblemEdge& edge) const;
  [[nodiscard]] bool is_converted(std::uint32_t variable, const Recomputation& recomputation, std::span<const std::uint32_t> answer) const;
  void add_variables();
  void add_memory();
  void add_saved(std::uint32_t variable, ValueId value, const std::vector<SavedTerm>& terms);
  void add_taker(const ProblemEdge& edge, std::vector<Share> shares);
  void add_saved_of_made(const ProblemEdge& edge, const std::vector<SavedTerm>& terms);
  [[nodiscard]] std::vector<Share> shares_of(const ProblemEdge& edge, const std::vector<SavedTerm>& terms, std::int32_t until) const;
  void add_kept_for_others();
  void keep_for(const ProblemEdge& edge, const std::vector<Share>& shares);
  void add_sources();
  void hold_at_maker(std::uint32_t maker, Takers& takers);
  void hold_at_source(const Entry& entry, Takers& takers);
  static std::vector<bool> no_less(const Bytes& kept, std::int64_t taken);
  [[nodiscard]] std::int64_t most_taken(const Takers& takers) const;
  void hold(std::uint32_t node, std::int32_t begin, std::int32_t end, Bytes bytes);
  std::uint32_t add_node(std::string name, std::size_t values);
  // An edge that allows a variable's strategy and state with some values of a node.
  template <class Allows>
  void tie(std::uint32_t variable, std::uint32_t node, Allows allows);

  const ProblemInput& input_;
  const Problem &kept_, &again_;
  const Problem* const converted_;  // null: nothing is converted again
  const RecomputePins& pins_;
  StrategySpace frame_;  // without the costs of variables and their edges
  std::vector<ValueId> owner_;                      // by value: of the storage that it lies in
  std::multimap<std::uint32_t, std::uint32_t> edges_to_;  // by variable
  std::vector<std::uint32_t> variable_of_;          // by node
  std::vector<bool> asked_;                         // by value
  std::vector<bool> may_run_, converts_;            // by variable: whether it has these states
  std::map<Entry, Takers> sources_;
  std::vector<std::int32_t> latest_, earliest_;     // by variable of an op that may run again: when it does
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<Ticks>>, std::uint32_t> ties_;
};

}  // namespace meshwright
