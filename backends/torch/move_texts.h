// Ways from one layout to another, as lists of the prelude's moves (prelude/moves.py).
#pragma once

#include <string>
#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/mesh.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

// Of a tensor that lies as `from` says. Neighbours that are collectives of one kind are one, `at_once` along their axes.
std::vector<std::string> move_texts(const ShardedType& from, const std::vector<Move>& moves, const Mesh& mesh);

}  // namespace meshwright::torch
