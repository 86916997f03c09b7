// What one rank has to do with a move: which parts of the result it takes from whom. It follows from the layouts alone, so that ranks need not ask each
// other, whether they are threads of one process or processes of their own (docs/backends.md, "What a move means").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "combine.h"
#include "meshwright/program.h"
#include "meshwright/tensor.h"

namespace meshwright {

// One rank's part of one move. Refers to the program.
struct MovePart {
  const Program& program;
  const Move& move;
  const ShardedType& from;
  const ShardedType& to;
  std::int64_t rank = 0;
  std::vector<std::int64_t> at;     // the rank's coordinates
  std::vector<std::int64_t> group;  // the ranks that hold what it needs, ascending, itself included
  Box target;                       // what it needs
  std::size_t element_bytes = 0;
  Combine combine = nullptr;        // of moves that reduce
};

// Errors: bad_input for a reduction in a dtype in which ranks don't compute.
Result<MovePart> move_part(const Program& program, const Instruction& instruction, std::int64_t rank);

// The part of the same move that falls to another rank of the group.
MovePart part_of(const MovePart& part, std::int64_t rank);

// Whether the rank needs anything of others: it does not where it slices the innermost axis of an atom, nor where one rank keeps a value.
bool needs_others(const MovePart& part);

// A box that a rank takes from what another one holds, or from what it holds itself.
struct Piece {
  std::int64_t from = 0;
  Box held;         // all that this one holds
  Box part;         // what is taken of that
  bool adds = false;  // It is combined with what is there already.
};

// In the order in which they are to be taken; of all moves but all_reduce and keep_one. Boxes that a move joins are either equal, and then one is read, or disjoint.
std::vector<Piece> pieces_of(const MovePart& part);

// Takes a piece out of `source`, all that its rank holds, into the rank's result.
void take(const MovePart& part, const Piece& piece, const std::byte* source, std::byte* result);

// An all-reduce is shared out: each member of the group reduces the elements from `begin` on, so many, in the order of the ranks.
struct Segment {
  std::size_t begin = 0, count = 0;
};
Segment segment_of(const MovePart& part, std::size_t member);

// The result of keep_one, all zeros so far. `scatter`: a seed, and the number of what the step does; each coordinate then gets a random share of the value instead of the
// first all of it, so that an op that is not linear is found out.
struct Scatter {
  std::uint64_t seed = 0;
  std::size_t step = 0;
};
void keep_one(const MovePart& part, const std::optional<Scatter>& scatter, const Tensor& source, Tensor& result);

}  // namespace meshwright
