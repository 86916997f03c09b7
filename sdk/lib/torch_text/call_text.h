// One call as text: its operands and attributes by the names that the op's schema has.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/op_emitter.h"

namespace meshwright::torch {

class CallText {
 public:
  explicit CallText(const EmitterCall& call);

  // Of an operand, or a list of operands, that the call has.
  [[nodiscard]] const std::string& text_of(const std::string& operand) const { return texts_.at(operand); }

  // {name} of a form stands for an operand or an attribute; [..] is left out where the call does not have what it mentions.
  // Empty if the form leaves out something that the call says.
  [[nodiscard]] std::string in_form(std::string_view form) const;

  // "torch.ops.NAME(...)". Says every argument, since a schema has no default for some that may be None; but not what ops on
  // local tensors need not be told (device, layout, memory format), unless `said` has its name.
  [[nodiscard]] std::string by_schema(const std::set<std::string>& said = {}) const;

  // "name(first, second, ...)": operands and attributes under these names, where the call has them, then `more`.
  [[nodiscard]] std::string helper(const std::string& name, const std::vector<std::string>& positional,
                                   const std::vector<std::string>& named, const std::vector<std::string>& more) const;

 private:
  [[nodiscard]] bool has(const std::string& name) const { return texts_.contains(name) || said_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name) const;
  [[nodiscard]] std::string filled(std::string_view form, std::set<std::string>& mentioned) const;

  const EmitterCall& call_;
  std::map<std::string, std::vector<std::string>> lists_;
  std::map<std::string, std::string> texts_;  // of operands
  std::set<std::string> said_;                // attributes that are not what they are by default
};

// Arguments of a helper; "" where there is nothing to say, and `helper` then leaves them out.
std::string named(const char* name, const std::string& text);                        // "name=text"
std::string axes_argument(const char* name, const std::vector<std::int64_t>& axes);  // "name=(0, 1)"
// "rows=positions(...)" of the attributes rows_atoms, rows_extents and rows_starts.
std::string positions_argument(const EmitterCall& call, const std::string& name);
std::string positions_argument(const EmitterStep& step, const std::string& name);
std::string stream_argument(const EmitterCall& call);  // "stream=..."

// Whether a mean over what the mesh axes `over` cut is this call's only result, and a partial sum over just these.
bool is_mean_over(const EmitterCall& call, const std::vector<std::int64_t>& over);

// The mesh axes along which the steps communicate, in the order in which they first do.
std::vector<std::int64_t> moved_axes(const std::vector<EmitterStep>& steps);

// The mesh axes whose places on `layout` the predicate wants.
template <class Wanted>
std::vector<std::int64_t> axes_where(const Mesh& mesh, const Layout& layout, Wanted wanted) {
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if (wanted(layout[axis])) axes.push_back(static_cast<std::int64_t>(axis));
  }
  return axes;
}

}  // namespace meshwright::torch
