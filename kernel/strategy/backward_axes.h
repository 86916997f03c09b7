// How the nodes of one op's gradient lie on the mesh. A strategy of the op says in which layouts it has its operands, receives
// its results' gradients and yields those of its operands; what is between follows from the nodes' own rules. Private to
// the kernel.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "meshwright/model_analysis.h"
#include "meshwright/strategy.h"

namespace meshwright {

// A value of the training graph that changes its layout inside the backward of one op.
struct InnerConversion {
  ValueId value = kNoId;
  Layout from, to;
  bool operator==(const InnerConversion&) const = default;
};

// A value without a gradient that an op, or its backward, wants in one layout.
struct ConstantUse {
  ValueId value = kNoId;  // of the training graph
  Layout layout;
};

// What the nodes of a gradient need besides what is at hand.
struct BackwardNeeds {
  std::vector<InnerConversion> conversions;  // each once, in the order in which they are needed
  std::vector<ConstantUse> constants;
};

struct BackwardLayouts {
  std::vector<CallLayouts> nodes;  // as TrainingAnalysis::backward_of
  BackwardNeeds needs;
};

class BackwardAxes {
 public:
  // Of one node of the forward; the references must outlive it.
  BackwardAxes(const TrainingAnalysis& model, const Mesh& mesh, NodeId forward);

  // The choices under which least must be converted, axis by axis. A value that is neither at hand nor made by the nodes is a
  // constant, which can be had in any layout. A node that reads the rank's own results (TensorRule::own) shares its work
  // as the op does. Errors: plugin_failed if its rule does not allow that.
  Result<BackwardLayouts> choose(const CallLayouts& call);

  // What must be converted and made where the nodes lie like this.
  [[nodiscard]] BackwardNeeds needs(const CallLayouts& call, const std::vector<CallLayouts>& nodes) const;

  // The layouts that follow from axes for each node; nothing if one does not fit its tensor, or the node cannot read what is
  // the rank's own.
  [[nodiscard]] std::optional<std::vector<CallLayouts>> derive(const CallLayouts& call, const std::vector<std::vector<AxisChoice>>& axes) const;

 private:
  struct Member {
    NodeId id = 0;
    std::vector<const AtomShape*> operands, results;
    std::vector<AxisChoice> choices;
    bool reads_own = false;
  };
  using Axes = std::vector<std::vector<AxisChoice>>;  // by member

  class Search;

  // The values with a gradient that the op has and makes, with their layouts.
  [[nodiscard]] std::map<ValueId, Layout> at_hand(const CallLayouts& call) const;
  [[nodiscard]] bool works_alike(const Member& member, const AxisChoice& choice, const AxisChoice& forward) const;
  [[nodiscard]] Error cannot_work_alike(const AxisChoice& forward) const;

  const TrainingAnalysis& model_;
  const Mesh& mesh_;
  const NodeId forward_;
  std::vector<Member> members_;
  std::vector<std::pair<ValueId, std::size_t>> wanted_;  // what the nodes contribute to the gradient of which operand
  // What one axis does, by its size and by what it does at the op; empty: that cannot be.
  using Key = std::tuple<std::int64_t, AxisUse, FactorId, std::uint8_t, std::uint8_t>;
  std::map<Key, std::vector<AxisChoice>> known_;
};

}  // namespace meshwright
