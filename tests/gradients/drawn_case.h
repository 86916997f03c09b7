// The same call of an op in float32 and on other shapes: what is compared with PyTorch beside the cases themselves.
#pragma once

#include <cstdint>

#include "meshwright/op.h"
#include "op_case.h"

namespace meshwright::test {

// Each of the rule's factors that may shard and is a dimension by itself wherever it stands is drawn from its own size
// up to three more; positions that are below a size so stay below it. Attributes that repeat a shape follow; sizes
// that other attributes say stay.
OpCase draw_case(const OpCase& op_case, const OpTable& ops, std::uint64_t seed);

}  // namespace meshwright::test
