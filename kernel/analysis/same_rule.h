// Whether two calls of an op behave alike but for their sizes. Private to the kernel.
#pragma once

#include "meshwright/atoms.h"
#include "meshwright/rule.h"

namespace meshwright {

// The same factors, in the same dimensions of the same tensors, with the same marks.
bool is_same_but_for_sizes(const Rule& a, const Rule& b);

// Whether a tensor's dimensions are cut into as many atoms each.
bool is_cut_alike(const AtomShape& a, const AtomShape& b);

}  // namespace meshwright
