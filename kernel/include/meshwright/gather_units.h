// Parameters that are gathered together (decision 039). A unit is a run of the parameters, in the model's order, of one block, cut where all of
// it would be more than a bucket. Where it is gathered does not depend on which of its parameters are stored in shards.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"

namespace meshwright {

// The block that a module, or a parameter, is of: what repeats, "transformer.h.0" of "transformer.h.0.attn"; "" of what stands outside of blocks.
MESHWRIGHT_API std::string block_of(std::string_view name);

struct NamedBytes {
  std::string name;
  std::int64_t bytes = 0;  // of all of it
};

// By parameter its unit, ascending.
MESHWRIGHT_API std::vector<std::uint32_t> gather_units(const std::vector<NamedBytes>& parameters, std::int64_t bucket_bytes);

}  // namespace meshwright
