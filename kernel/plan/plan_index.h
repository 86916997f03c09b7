// A plan's variables, conversions and constants, found by what they are of. Private to the kernel.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "meshwright/plan.h"

namespace meshwright {

class PlanIndex {
 public:
  // Of a plan that stays as it is. Where two conversions or constants are alike, the first.
  explicit PlanIndex(const Plan& plan);
  // Of the plan's variables alone; conversions and constants are made known by `add`.
  static PlanIndex of_variables(const Plan& plan);

  // The variable; kNoId if there is none.
  [[nodiscard]] std::uint32_t variable_of(NodeId node) const { return node < nodes_.size() ? nodes_[node] : kNoId; }
  [[nodiscard]] std::uint32_t variable_of_fork(ValueId value) const { return forks_.at(value); }
  [[nodiscard]] std::uint32_t variable_of_output(ValueId value) const { return outputs_.at(value); }
  // Null if there is none.
  [[nodiscard]] const PlannedNode* node(NodeId id) const;
  [[nodiscard]] const PlannedParameter* parameter(ValueId id) const;
  [[nodiscard]] const PlannedFork* fork(ValueId id) const;
  [[nodiscard]] const PlannedOutput* output(ValueId id) const;

  // What yields a value to those who use it, and in which layouts: its fork, or else its maker; kNoId: no variable does.
  struct Origin {
    std::uint32_t variable = kNoId;
    PortLayouts layouts;
    bool parameter = false;
  };
  [[nodiscard]] Origin origin(ValueId id) const;
  // The same without the fork.
  [[nodiscard]] Origin maker(ValueId id) const;

  // Indices into Plan::conversions; kNoId if there is none. Of a value, wherever it is used; of a gradient, by its user.
  [[nodiscard]] std::uint32_t conversion(ValueId value, bool hides, const Layout& from, const Layout& to) const;
  [[nodiscard]] std::uint32_t gradient_conversion(ValueId value, std::uint32_t user, std::uint32_t port, const Layout& from, const Layout& to) const;
  [[nodiscard]] const CallLayouts* constant(ValueId value, const Layout& wanted) const;

  // Whether it was not known.
  bool add(const PlannedConversion& conversion, std::uint32_t index);
  bool add(const PlannedConstant& constant);

 private:
  enum class Reads : std::uint8_t { variables, all };
  PlanIndex(const Plan& plan, Reads reads);

  using Key = std::tuple<ValueId, bool, std::uint32_t, std::uint32_t, Layout, Layout>;
  static Key key_of(const PlannedConversion& conversion);

  const Plan& plan_;
  std::vector<std::uint32_t> nodes_;
  std::map<ValueId, std::uint32_t> parameters_, forks_, outputs_;
  std::map<Key, std::uint32_t> conversions_, gradients_;
  std::map<std::pair<ValueId, Layout>, CallLayouts> constants_;
};

}  // namespace meshwright
