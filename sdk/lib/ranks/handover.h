// Which elements of a value each rank of one stage of a pipeline hands to a rank of another one. It follows from how the value lies on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/mesh.h"
#include "meshwright/shard.h"

namespace meshwright {

// Elements that lie one after the other in the sender's part and in the receiver's.
struct HandedRun {
  std::size_t from = 0, to = 0, count = 0;
};

// How a value lies on the ranks of a stage.
struct StageEnd {
  const ShardedType& type;
  const Mesh& mesh;
};

// By sender, what this one receiver gets of it. Of several senders that have an element the first one gives it. The two stages may see the dimensions of
// the tensor as products of other atoms. Padding is not handed over.
std::vector<std::vector<HandedRun>> handed_to(const StageEnd& sender, const StageEnd& receiver, std::int64_t rank);

}  // namespace meshwright
