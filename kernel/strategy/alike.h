// What makes two values or two calls of ops alike to the search: keys under which their strategies and prices are
// shared. Private to the kernel.
#pragma once

#include <string>

#include "meshwright/strategy.h"

namespace meshwright {

// The dtype, and the atoms by dimension.
std::string shape_key(DType dtype, const AtomShape& atoms);

// What of a call stays in registers; "" where that is nothing.
std::string fused_key(const FusedCall& fused);

// The op, its rule and its work; the shapes of operands and results are not in it.
std::string call_key(const Node& node, const AtomizedNode& atoms);

}  // namespace meshwright
