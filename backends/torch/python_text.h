// Pieces of Python: literals, layouts and moves, as the prelude's constructors read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/conversion.h"
#include "meshwright/graph.h"
#include "meshwright/program.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

std::string join(const std::vector<std::string>& parts, std::string_view between = ", ");
std::string tuple(const std::vector<std::string>& parts);  // "()", "(1,)", "(1, 2)"
std::string tuple(const std::vector<std::int64_t>& numbers);
std::string list(const std::vector<std::string>& parts);
std::string number(double value);  // the shortest text that reads back as the same number
std::string quoted(std::string_view text);
std::string dtype(DType type);  // "torch.float32"

// `value` as a literal; a list of numbers is a list.
std::string literal(const Attribute& value);

// "Layout((768, 2304), (None, 1))"
std::string layout(const ShardedType& tensor, const Mesh& mesh);

// One move of a tensor that lies as `before` says, as calls of the prelude's constructors; two where a sum goes to shards
// that are not in place.
std::vector<std::string> moves(const ShardedType& before, const Move& move, const Mesh& mesh);

// "positions((50,), (25,), (0,), ((25,), (0,)))" for the attributes NAME_atoms, NAME_extents and NAME_starts of a call.
// Empty if the call does not have them.
std::string positions(const Instruction& call, const std::string& name);

// A Python identifier made of a name: "linear_3" stays, "transformer.wte" becomes "transformer_wte".
std::string identifier(std::string_view name);

}  // namespace meshwright::torch
