// Launches of pointwise functions that follow each other, as one.
#pragma once

#include <cstddef>
#include <optional>

#include "driver.h"
#include "kernels/chains.h"

namespace meshwright::cuda {

ChainArguments arguments_of(const Launch& chain);

// A chain of one link. Nothing: it is none that chains compute. The result has to lie row by row, of a type that chains
// know, at a multiple of 16 bytes. An operand does, too, or lies at other strides where that lets a thread have pieces
// of its rows, or one number of each: it is repeated, or a part of something.
std::optional<Launch> chain_of(const PointwiseArguments& arguments, std::int64_t elements);

// What two chains do one after the other, as one chain; nothing: they are too long, or a thread would meet elements of
// another one.
std::optional<Launch> joined(const Launch& before, const Launch& next);

// How often links read what stands at `result` since the last of them that made it, or, if none did, from the first on.
std::size_t reads_within(const Launch& chain, const std::byte* result);
// Nobody else reads what a link made there: it stays in registers, or, in a chain that is not compiled by itself, in
// memory for links that are not directly behind it.
void keep_in_registers(Launch& chain, const std::byte* result);

// What it reads and writes where it is compiled by itself (chain_source.h).
Touched touched_by_compiled(const Launch& chain);

}  // namespace meshwright::cuda
