// One call as text: its operands and attributes by the names that the op's schema has.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "op_text.h"

namespace meshwright::torch {

class CallText {
 public:
  CallText(const Instruction& call, const ValueText& value);

  // Of an operand, or a list of operands, that the call has.
  [[nodiscard]] const std::string& text_of(const std::string& operand) const { return texts_.at(operand); }

  // A form's text (op_forms.h); empty if it leaves out something that the call says.
  [[nodiscard]] std::string in_form(std::string_view form) const;

  // "torch.ops.NAME(...)". Says every argument, since a schema has no default for some that may be None.
  [[nodiscard]] std::string by_schema() const;

  // "name(first, second, ...)": operands and attributes under these names, where the call has them, then `more`.
  [[nodiscard]] std::string helper(const std::string& name, const std::vector<std::string>& positional,
                                   const std::vector<std::string>& named, const std::vector<std::string>& more) const;

 private:
  [[nodiscard]] bool has(const std::string& name) const { return texts_.contains(name) || said_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name) const;
  [[nodiscard]] std::string filled(std::string_view form, std::set<std::string>& mentioned) const;

  const Instruction& call_;
  std::map<std::string, std::vector<std::string>> lists_;
  std::map<std::string, std::string> texts_;  // of operands
  std::set<std::string> said_;                // attributes that are not what they are by default
};

}  // namespace meshwright::torch
