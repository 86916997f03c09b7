// Who uses what when: the way of values and of their gradients between the variables of a problem. Private to the kernel.
//
// Variables stand in the order of the forward; the backward goes through them from the last to the first.
#pragma once

#include <map>
#include <vector>

#include "meshwright/backward_memory.h"
#include "meshwright/strategy.h"

namespace meshwright {

class VariableFlow {
 public:
  // Both must outlive this.
  VariableFlow(const BackwardMemory& memory, const Problem& problem);

  // Edges, as indices: from a variable, and to its ports.
  [[nodiscard]] const std::vector<std::uint32_t>& out(std::uint32_t i) const { return out_[i]; }
  [[nodiscard]] const std::map<std::uint32_t, std::uint32_t>& in(std::uint32_t i) const { return in_[i]; }

  struct Uses {
    std::uint32_t first = kNoId, last = 0;              // variables that compute with it
    std::uint32_t first_saver = kNoId, last_saver = 0;  // whose backward does
  };
  [[nodiscard]] Uses uses_of(std::uint32_t i) const;

  // The variable in whose backward a gradient that arrives at i is used up: views hand it on.
  [[nodiscard]] std::uint32_t gradient_ends_at(std::uint32_t i) const;
  // A sum hands the gradient that comes in to its addends as it is: theirs have one storage.
  [[nodiscard]] bool is_sum(std::uint32_t i) const;
  // Of the addends of sum i, the port of the one that needs its gradient longest; forks are left out. kNoId: none.
  [[nodiscard]] std::uint32_t longest_addend(std::uint32_t i) const;
  // The variable behind whose backward nobody else counts the storage of the gradient that arrives at i. Without others that
  // share it that is a fork's last use, and a node itself.
  [[nodiscard]] std::uint32_t shared_until(std::uint32_t i) const;

 private:
  [[nodiscard]] const Variable& variable(std::uint32_t i) const { return problem_.variables[i]; }
  [[nodiscard]] bool is_node(std::uint32_t i) const { return variable(i).kind == VariableKind::node; }
  [[nodiscard]] const NodeBackward& backward_of(std::uint32_t i) const { return memory_.nodes[variable(i).node]; }
  [[nodiscard]] std::uint32_t from(std::uint32_t edge) const { return problem_.edges[edge].from; }
  [[nodiscard]] std::uint32_t last_use_before(std::uint32_t i, std::uint32_t use) const;
  [[nodiscard]] std::uint32_t counted_until(std::uint32_t i, std::uint32_t sharer) const;

  const BackwardMemory& memory_;
  const Problem& problem_;
  std::vector<std::vector<std::uint32_t>> out_;
  std::vector<std::map<std::uint32_t, std::uint32_t>> in_;  // by port
};

}  // namespace meshwright
