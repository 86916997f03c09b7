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

// Nobody but the link behind it reads what the last link made that stands at `result`: it stays in registers, if it is
// handed over there and nowhere else. The chain does without that memory from here on.
void keep_in_registers(Launch& chain, const std::byte* result);

}  // namespace meshwright::cuda
