#include "strategy/variable_flow.h"

#include <algorithm>

namespace meshwright {

VariableFlow::VariableFlow(const BackwardMemory& memory, const Problem& problem)
    : memory_(memory), problem_(problem), out_(problem.variables.size()), in_(problem.variables.size()) {
  for (std::uint32_t edge = 0; edge < problem.edges.size(); ++edge) {
    out_[problem.edges[edge].from].push_back(edge);
    in_[problem.edges[edge].to][problem.edges[edge].to_port] = edge;
  }
}

VariableFlow::Uses VariableFlow::uses_of(std::uint32_t i) const {
  Uses uses;
  for (const std::uint32_t e : out_[i]) {
    const ProblemEdge& edge = problem_.edges[e];
    Uses here;
    if (variable(edge.to).kind == VariableKind::fork) {
      here = uses_of(edge.to);
    } else {
      here.first = here.last = edge.to;
      if (is_node(edge.to) && backward_of(edge.to).saves_operand[edge.to_port]) here.first_saver = here.last_saver = edge.to;
    }
    uses.first = std::min(uses.first, here.first);
    uses.last = std::max(uses.last, here.last);
    uses.first_saver = std::min(uses.first_saver, here.first_saver);
    uses.last_saver = std::max(uses.last_saver, here.last_saver);
  }
  return uses;
}

// --- gradients that share a storage ---

bool VariableFlow::is_sum(std::uint32_t i) const {
  if (!is_node(i) || backward_of(i).view || backward_of(i).works) return false;
  const std::vector<bool>& passes = backward_of(i).passes_gradient;
  return std::find(passes.begin(), passes.end(), true) != passes.end();
}

std::uint32_t VariableFlow::gradient_ends_at(std::uint32_t i) const {
  while (is_node(i) && !is_sum(i)) {
    std::uint32_t next = kNoId;
    for (const auto& [port, edge] : in_[i]) {
      if (backward_of(i).passes_gradient[port] && is_node(from(edge))) next = from(edge);
    }
    if (next == kNoId) return i;
    i = next;
  }
  return i;
}

std::uint32_t VariableFlow::longest_addend(std::uint32_t i) const {
  std::uint32_t longest = kNoId, ends = kNoId;
  for (const auto& [port, edge] : in_[i]) {
    if (!backward_of(i).passes_gradient[port] || !is_node(from(edge))) continue;
    const std::uint32_t here = gradient_ends_at(from(edge));
    if (longest == kNoId || here < ends) longest = port, ends = here;
  }
  return longest;
}

// The use of a fork whose backward comes right after that of `use`, where their gradients are added up.
std::uint32_t VariableFlow::last_use_before(std::uint32_t i, std::uint32_t use) const {
  std::uint32_t last = 0;
  for (const std::uint32_t e : out_[i]) {
    if (problem_.edges[e].to < use) last = std::max(last, problem_.edges[e].to);
  }
  return last;
}

// Until whose backward a storage that is handed to i, and to `sharer`, is counted as the gradient of i, or of what i hands it on to.
std::uint32_t VariableFlow::counted_until(std::uint32_t i, std::uint32_t sharer) const {
  if (variable(i).kind == VariableKind::fork) return i < sharer ? last_use_before(i, uses_of(i).last) : kNoId;
  if (!is_node(i)) return kNoId;
  std::uint32_t until = i;
  for (const auto& [port, edge] : in_[i]) {
    if (backward_of(i).passes_gradient[port] && from(edge) != sharer) until = std::min(until, counted_until(from(edge), sharer));
  }
  return until;
}

std::uint32_t VariableFlow::shared_until(std::uint32_t i) const {
  const bool fork = variable(i).kind == VariableKind::fork;
  const std::uint32_t last = uses_of(i).last;
  std::uint32_t until = fork ? last : i;
  for (std::uint32_t at = i;;) {
    std::uint32_t up = kNoId;
    for (const std::uint32_t e : out_[at]) {
      const ProblemEdge& edge = problem_.edges[e];
      const bool passes = is_node(edge.to) && backward_of(edge.to).passes_gradient[edge.to_port];
      if (passes && (at != i || !fork || edge.to == last)) up = edge.to;
    }
    if (up == kNoId) return until;
    for (const auto& [port, edge] : in_[up]) {
      if (backward_of(up).passes_gradient[port] && from(edge) != at) until = std::min(until, counted_until(from(edge), i));
    }
    at = up;
  }
}

}  // namespace meshwright
