// Layouts and moves as the prelude's constructors read them (prelude/layout.py, prelude/moves.py).
#pragma once

#include <string>
#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/mesh.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

// "Layout((768, 2304), (None, 1))"
std::string layout(const ShardedType& tensor, const Mesh& mesh);

// One move of a tensor that lies as `before` says, as calls of the prelude's constructors; two where a sum goes to shards
// that are not in place.
std::vector<std::string> moves(const ShardedType& before, const Move& move, const Mesh& mesh);

}  // namespace meshwright::torch
