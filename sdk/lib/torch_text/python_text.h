// Pieces of Python: literals, names and remarks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

std::string join(const std::vector<std::string>& parts, std::string_view between = ", ");
std::string tuple(const std::vector<std::string>& parts);  // "()", "(1,)", "(1, 2)"
std::string tuple(const std::vector<std::int64_t>& numbers);
std::string list(const std::vector<std::string>& parts);
std::string number(double value);  // the shortest text that reads back as the same number

// What a model, a plan or a file name says goes into a program through these alone, whatever bytes it has: as a text
// (`quoted`), a name (`identifier`, `dotted_name`), a remark (`comment`) or a word that PyTorch knows (`named_dtype`,
// `memory_format`). Each gives ASCII on one line.

// A string literal that reads back as `text`: control bytes, quotes and what is not ASCII are escaped, so no quote
// stands inside of it. A byte that is no UTF-8 becomes the surrogate by which Python names such bytes.
std::string quoted(std::string_view text);

// `text` as a comment's or a docstring's: what could end one, or is not printable ASCII, is replaced, and of more than
// 200 letters the middle is left out.
std::string comment(std::string_view text);

// A Python identifier made of a name: "linear_3" stays, "transformer.wte" becomes "transformer_wte".
std::string identifier(std::string_view name);

// The same part by part: "aten.add.Tensor" stays.
std::string dotted_name(std::string_view name);

std::string dtype(DType type);  // "torch.float32"
// The same by its name, and "torch.contiguous_format" of "contiguous"; of a word that PyTorch does not have a literal.
std::string named_dtype(const std::string& name);
std::string memory_format(const std::string& name);

// `value` as a literal; a list of numbers is a list.
std::string literal(const Attribute& value);

// "positions((50,), (25,), (0,), ((25,), (0,)))" of the attributes NAME_atoms, NAME_extents and NAME_starts of a call or a step.
// Empty if there are none.
std::string positions(const Attributes& attributes, const RankAttributes& rank_attributes, const std::string& name);

}  // namespace meshwright::torch
