// What of a plan's forward is kept for its backward, and what is made again, where the layouts are given: a small search problem, with a variable for each op
// that could run again and one for each storage that is not kept then (Checkmate's choice, Jain et al. 2020, arXiv 1910.02653, within blocks: an op runs again once).
//
//   op         runs again or not; it costs its forward, with what converts its operands
//   storage    dropped, kept from its forward on, or made again: by its op, which runs again then. A backward that takes it forbids dropping it. Where backwards take
//              it in layouts that hold more than it does as its op yields it, kept as that, and converted again for them.
//   An op that runs again needs what it takes: kept, made again, or there anyway.
//
// Its terms of memory are those of the plan that keeps everything, less the bytes of these storages. They know nothing of what runs again together, so what comes
// out is held against its program, as any plan is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/recompute.h"
#include "meshwright/strategy.h"
#include "recompute_pins.h"

namespace meshwright {

class KeptSpace {
 public:
  // Problems of the same model and mesh, with the same choices.
  struct Problems {
    const Problem& kept;       // nothing runs again
    const Problem& again;      // every block does
    const Problem& converted;  // every operand is converted again that could be
  };

  // Of `choice`, one of each of them. All must outlive this.
  KeptSpace(const ProblemInput& input, const Problems& problems, const RecomputePins& pins, std::span<const std::uint32_t> choice);

  [[nodiscard]] const StrategySpace& space() const { return space_; }

  // Nodes of the ops that run again in an answer; the second value of such a node says so.
  [[nodiscard]] std::vector<std::uint32_t> ops_again(std::span<const std::uint32_t> answer) const;

  // ProblemInput::recomputed of an answer.
  [[nodiscard]] std::vector<std::string> recomputed(std::span<const std::uint32_t> answer) const;

 private:
  // What backwards take in one layout of a storage.
  struct Copy {
    std::int64_t bytes = 0;
    std::uint32_t first = kNoId, last = 0;  // variables whose backward takes it
    std::set<NodeOperand> convertible = {};
    bool of_others = false;                 // who can't have it converted again takes it too
  };
  struct Storage {
    std::map<Layout, Copy> copies;
    std::map<Layout, std::int64_t> made;    // bytes of it as what could be converted again is kept for that
    std::uint32_t first = kNoId, last = 0;  // variables whose backward takes it
    // What is converted again in that state; others are kept.
    [[nodiscard]] std::vector<const Copy*> larger() const;
    [[nodiscard]] bool converts(const NodeOperand& operand) const;
  };

  void find_storages();
  // Where what an operand takes is converted again from, and along which edges.
  struct Source {
    std::vector<std::uint32_t> edges;
    Layout layout = {};
    ValueId value = kNoId;
  };
  [[nodiscard]] Source source_of(const NodeOperand& operand) const;
  void add_saved(std::uint32_t variable, ValueId value, const Layout& layout, const std::optional<NodeOperand>& operand);
  [[nodiscard]] Ticks earlier_first(Ticks ticks, std::uint32_t variable) const;
  void add_ops();
  void add_storages();
  void add_needs();
  void add_rest();
  std::uint32_t add_node(std::string name, std::vector<Ticks> costs);
  void add_edge(std::uint32_t from, std::uint32_t to, CostTable table);
  std::uint32_t add_kept_for(ValueId owner, std::uint32_t user);
  void hold_converted(std::uint32_t node, const Storage& storage, std::uint32_t maker);
  void hold(std::uint32_t node, std::size_t state, std::size_t states, std::int32_t begin, std::int32_t end, std::int64_t bytes);
  [[nodiscard]] Ticks again_cost(const Problem& with, std::uint32_t edge) const;
  [[nodiscard]] Ticks again_cost(std::uint32_t edge) const { return again_cost(again_, edge); }
  [[nodiscard]] std::int64_t bytes_of(const Layout& layout, ValueId value) const;
  [[nodiscard]] std::int64_t made_bytes(ValueId owner) const;
  [[nodiscard]] const Strategy& chosen(std::uint32_t variable) const { return kept_.variables[variable].set->strategies[choice_[variable]]; }
  [[nodiscard]] std::int32_t forward_at(std::uint32_t variable) const { return static_cast<std::int32_t>(variable); }
  [[nodiscard]] std::int32_t backward_at(std::uint32_t variable) const { return 2 * static_cast<std::int32_t>(kept_.variables.size()) - 1 - static_cast<std::int32_t>(variable); }
  [[nodiscard]] bool is_kept_anyway(ValueId owner) const;

  const ProblemInput& input_;
  const Problem &kept_, &again_, &converted_;
  const RecomputePins& pins_;
  const std::span<const std::uint32_t> choice_;
  StrategySpace space_;
  std::vector<RecomputableBlock> blocks_;
  std::set<NodeOperand> convertible_;
  std::map<NodeId, std::uint32_t> variable_of_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> edge_to_;  // by variable and port
  std::set<std::uint32_t> converted_edges_;  // along which larger copies are converted again
  std::vector<ValueId> owner_;               // by value: of the storage that it lies in
  std::map<ValueId, Storage> storages_;      // by owner: that a backward takes
  std::map<ValueId, std::uint32_t> node_of_storage_;  // by owner: that could be made again, or must be kept for what runs again
  std::map<NodeId, std::uint32_t> node_of_op_;
  std::map<std::pair<std::uint32_t, std::vector<Ticks>>, std::uint32_t> table_of_;
  std::vector<std::int64_t> taken_off_;      // by time: bytes of what is kept, that are the storages' here
};

}  // namespace meshwright
