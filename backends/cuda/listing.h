// What a rank asks of its device in a step, to be read: where the bytes and the multiplications of a step are.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "execution.h"

namespace meshwright::cuda {

// A line for each command, in order, with its columns apart by tabs: the instruction, the stream, what is asked for,
// bytes read and written, and multiplications. Bytes are of the memory that it says it touches, once each; of what
// cuDNN does, and of convolutions and attention, multiplications are not counted. Events have no line.
std::string listing_of(const Program& program, const std::vector<Occurrence>& steps, const RankStep& step);

}  // namespace meshwright::cuda
