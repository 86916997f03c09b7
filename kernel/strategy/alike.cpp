#include "strategy/alike.h"

namespace meshwright {

std::string shape_key(DType dtype, const AtomShape& atoms) {
  std::string key{name(dtype)};
  std::size_t atom = 0;
  for (const std::uint8_t count : atoms.atoms_of_dimension) {
    key += '[';
    for (std::uint8_t i = 0; i < count; ++i, ++atom) {
      key += std::to_string(atoms.sizes[atom]) + (atoms.paddable[atom] ? "~ " : " ");
    }
    key += ']';
  }
  return key;
}

std::string fused_key(const FusedCall& fused) {
  if (fused == FusedCall{}) return "";
  std::string key = fused.launches ? " fused " : " fused, launched by another ";
  for (const bool unread : fused.unread) key += unread ? '-' : 'r';
  key += '>';
  for (const bool unwritten : fused.unwritten) key += unwritten ? '-' : 'w';
  return key;
}

std::string call_key(const Node& node, const AtomizedNode& atoms) {
  std::string key = node.op + " " + to_string(atoms.rule);
  for (const Factor& factor : atoms.rule.factors) key += " " + std::to_string(factor.size);
  // What a family reads from attributes shows in the rule, but for the work itself.
  for (const WorkTerm& term : atoms.cost.forward) {
    key += " work " + std::to_string(term.flops) + (term.is_causal ? " causal" : "");
  }
  return key;
}

}  // namespace meshwright
