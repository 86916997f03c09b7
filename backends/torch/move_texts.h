// Ways from one layout to another, as lists of the prelude's moves (prelude/moves.py).
#pragma once

#include <string>
#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/mesh.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

// Of a tensor that lies as `from` says. What is one collective over several axes is one here, `at_once` along them.
std::vector<std::string> move_texts(const ShardedType& from, const std::vector<Move>& moves, const Mesh& mesh);

}  // namespace meshwright::torch
