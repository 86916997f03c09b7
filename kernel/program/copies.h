// The copies of a graph's values that a program has while it is made: as their makers yield them, and converted to where they settle and for their uses. Which of
// them a backward finds kept, and which it has made again (recompute.h). Private to the kernel.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "meshwright/program.h"
#include "meshwright/recompute.h"
#include "plan/plan_index.h"

namespace meshwright {

class Copies {
 public:
  using Conversions = std::map<std::pair<ProgramValueId, Layout>, ProgramValueId>;

  // Both must outlive this.
  Copies(const PlanIndex& index, const Program& program) : index_(index), program_(program) {}
  void set_keepers(Keepers keepers) { keepers_ = std::move(keepers); }

  // By its maker, in the layout that it yields.
  [[nodiscard]] ProgramValueId made(ValueId id) const { return made_.at(id); }
  void set_made(ValueId id, ProgramValueId made) { made_[id] = made; }

  // Of such a value in such a layout; kNoId where there is none yet.
  ProgramValueId& converted(ProgramValueId from, const Layout& to) { return converted_.try_emplace({from, to}, kNoId).first->second; }

  // From here on what these nodes take of what was kept is converted anew. Yields what others keep of it for their backward.
  Conversions forget_operands(const Graph& graph, const std::vector<NodeId>& nodes, const Recomputation& again);
  void restore(const Conversions& kept);

  // So that the next use of a value in this layout converts it anew from what its maker yielded, unless a backward takes this copy as it was in the forward, or has
  // had it made again.
  void forget_copy(ValueId id, const Layout& layout, const std::function<ProgramValueId(ProgramValueId made, const Layout& to)>& convert);

 private:
  void forget(ValueId id, Conversions& kept);
  [[nodiscard]] const Layout& layout_of(ProgramValueId id) const { return program_.values[id].type.layout; }
  [[nodiscard]] const Layout& layout_for(const NodeOperand& user) const { return index_.node(user.first)->call.operands[user.second].value; }
  [[nodiscard]] const std::vector<NodeOperand>& keepers_of(ValueId id) const;
  [[nodiscard]] ProgramValueId settled(ValueId id) const;
  [[nodiscard]] bool is_there(ValueId id, const Layout& layout) const;

  const PlanIndex& index_;
  const Program& program_;
  Keepers keepers_;
  std::map<ValueId, ProgramValueId> made_;
  Conversions converted_;
  std::set<std::pair<ValueId, Layout>> again_;  // copies that a backward has had made again
};

}  // namespace meshwright
