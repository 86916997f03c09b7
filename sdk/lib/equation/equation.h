// The equation of an einsum, "bhid,bhjd->bhij", as PyTorch reads it: "..." stands for the dimensions that no letter names, and
// without an arrow the result has the letters that appear once, in alphabetical order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

struct Equation {
  // By dimension its name: a letter, or a number for one of those that "..." stands for.
  std::vector<std::vector<std::string>> operands;
  std::vector<std::string> result;
};

// Errors: bad_input: an equation that does not go with the operands' ranks, or that takes a diagonal.
Result<Equation> parse_equation(std::string_view text, const std::vector<std::int64_t>& ranks);

// Of a call: the attribute, or what outer, dot and mv stand for.
Result<Equation> equation_of(const Node& node, const std::vector<std::int64_t>& ranks);

// Back to text, with a letter for each name.
std::string to_text(const Equation& equation);

}  // namespace meshwright
