// The text of kernels that do what chains do, each by itself: functions, types and what stays in registers are known
// where it is compiled. It is made of numbers of ours and the kernels' own headers: no word of a plan or a model is in
// it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/chains.h"

namespace meshwright::cuda {

// All that is compiled of a chain: chains that differ only in where their operands lie, how many elements they have and
// in their functions' numbers are of one shape. A place that two links write is written once, and what a link wrote is
// not read again.
std::string chain_shape(const ChainArguments& chain);

// A source with a kernel for each shape, "chain_0" and so on, called as the kernel `chain` is.
std::string chain_source(const std::vector<std::string>& shapes);

// What the source includes: names, and texts that end with a zero. They are a part of this library.
struct ChainHeader {
  const char* name;
  const char* text;
};
std::span<const ChainHeader> chain_headers();

}  // namespace meshwright::cuda
