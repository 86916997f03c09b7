// One placement of a LoadProblem, drawn from a policy piece by piece so that it keeps the problem's rules.
//
// Devices stand in a row, and a stage is what one of them gets; those that get nothing are left out. Pieces (load_graph.h) are placed in an order in which every piece comes behind those that its edges come from. So:
//
//   edges    a piece may go to the last device that such a piece is on, or to a later one
//   groups   are pieces
//   hosts    where in the row they stand is drawn first; what must be on a host goes to hosts alone
//   memory   an accelerator without room is no option. Where a piece has no option, the end of the placement is repaired: the last pieces that were placed (1, 2, 4, ... of them, at last all) and those that were not
//            go, one after the other, to the first device that may take them; if that fails too, all go to a host, where there is one. What was drawn stays drawn, and the repair is a part of what the placement costs
//
// If the pieces are a line and there is no host, a piece goes to the device of the one before it or to the next one: all contiguous stages can be had so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load_graph.h"
#include "meshwright/placement.h"
#include "placement_policy.h"
#include "split_mix.h"

namespace meshwright {

class PlacementDraw {
 public:
  // The problem outlives it.
  explicit PlacementDraw(const LoadProblem& problem);

  [[nodiscard]] std::size_t pieces() const { return graph_.pieces.size(); }
  [[nodiscard]] std::size_t devices() const { return slots_.size(); }
  [[nodiscard]] std::size_t rows() const { return pieces() + devices(); }  // of a policy for it
  [[nodiscard]] std::uint64_t options() const { return options_; }         // that were looked at so far

  // Why no stages at all keep the rules; "" where nothing proves that.
  [[nodiscard]] std::string why_infeasible() const;

  // Draws a placement. False if it can't be repaired.
  bool draw(PlacementPolicy& policy, SplitMix& numbers);

  // Of the last placement: the largest load, in seconds, and the stages.
  [[nodiscard]] double load() const;
  [[nodiscard]] std::vector<PlacementStage> stages() const;

  [[nodiscard]] double even_load() const { return even_load_; }    // all pieces' seconds over the devices; more than 0
  [[nodiscard]] double worst_load() const { return worst_load_; }  // no placement has a larger one

 private:
  struct Slot {
    bool host = false;
    double seconds = 0;
    double bytes = 0;
  };

  void find_order();
  void clear();
  void draw_hosts(PlacementPolicy& policy, SplitMix& numbers);
  [[nodiscard]] bool may_hold(std::uint32_t slot, std::uint32_t piece) const;
  [[nodiscard]] std::uint32_t first_slot(std::uint32_t piece) const;
  [[nodiscard]] std::uint32_t last_slot(std::uint32_t first, std::uint32_t piece) const;
  [[nodiscard]] double seconds_on(std::uint32_t slot, std::uint32_t piece) const;
  void find_options(std::uint32_t piece, double before);
  void place(std::uint32_t piece, std::uint32_t slot);
  bool repair(std::size_t placed);
  bool place_rest(std::size_t kept);

  const LoadProblem& problem_;
  LoadGraph graph_;
  std::uint32_t accelerators_ = 0, hosts_ = 0;          // that can be of use
  std::vector<std::uint32_t> order_;                    // of pieces
  std::vector<std::vector<std::uint32_t>> before_;      // by piece: those that its edges come from
  bool is_line_ = false;                                // each piece of the order has an edge to the next one
  double work_ = 0;                                     // of all pieces, on an accelerator where they may be on one
  double even_load_ = 0, worst_load_ = 0;
  std::uint64_t options_ = 0;

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> slot_of_;                  // by piece
  std::vector<std::vector<std::uint32_t>> slots_of_;    // by value: those with a piece that touches it, each once
  std::vector<PolicyOption> found_;                     // options of a piece; the column is the slot
};

}  // namespace meshwright
