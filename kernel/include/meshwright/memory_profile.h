// What one rank holds in memory over a step of a finished program, by what it is for, and what each node of the forward
// adds to it (MAP §4.1, Figure 3). It is read off the program: nothing is allocated.
//
// Bytes are those of storages: values that share one (views, results in place) are counted once, from when the first of
// them is made until the last is freed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/memory_account.h"
#include "meshwright/program.h"

namespace meshwright {

enum class MemoryKind : std::uint8_t {
  parameter,   // as it is stored
  optimizer,   // the optimizer's state of the parameters
  gradient,    // of a parameter, as the update takes it, and what it is reduced from
  gathered,    // a copy of a parameter in another layout than it is stored in
  input,       // of the step: batches, buffers, constants
  activation,  // made in a forward, used in its backward: what is saved
  recomputed,  // made by a forward that runs again for its backward
  output,      // of the step, and not saved
  temporary,   // everything else: values of one phase, the gradients of activations among them
};
inline constexpr std::size_t kMemoryKinds = 9;
MESHWRIGHT_API const char* name(MemoryKind kind);

struct MemorySplit {
  std::array<std::int64_t, kMemoryKinds> bytes{};  // by kind

  std::int64_t& operator[](MemoryKind kind) { return bytes[static_cast<std::size_t>(kind)]; }
  std::int64_t operator[](MemoryKind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] MESHWRIGHT_API std::int64_t sum() const;
  bool operator==(const MemorySplit&) const = default;
};

struct HeldTensor {
  std::string name;  // of the value whose storage it is
  MemoryKind kind = MemoryKind::temporary;
  TensorType type;          // of one rank
  std::int64_t copies = 1;  // of that type: what an optimizer keeps for each element
  std::int64_t bytes = 0;   // of all copies
  std::string node;         // Instruction::node of what made it; "" if it was there before the step
  bool operator==(const HeldTensor&) const = default;
};

// One node of the forward graph: its forward, its backward, and the conversions that either needs, in one microbatch.
// Each is a sum of bytes over the storages it names; parameters and their gathered copies are left out of fwd_in. What an
// op allocates inside its kernel is not known here.
struct NodeMemory {
  std::string name, op, module_path;
  std::int64_t fwd_in = 0;       // made before it, read by its forward and again by its backward: the operands saved for it
  std::int64_t fwd_tmp = 0;      // made by its forward and read by no other node: freed with it, or saved for its backward alone
  std::int64_t fwd_out = 0;      // made by its forward and read by another node, or an output of the step
  std::int64_t bwd_tmp = 0;      // made by its backward and read by nothing else
  std::int64_t bwd_out = 0;      // made by its backward for others: the gradients that it yields, of parameters too
  std::int64_t saved_bytes = 0;  // of fwd_tmp and fwd_out, what any backward uses: activations that it made
};

struct MemoryProfile {
  // What is held after each occurrence of the step, in their order. Of what repeats more than twice the first and the last
  // repetition are there: those in between hold what lies between these two, and never more.
  struct Point {
    Occurrence at;
    MemorySplit held;
  };
  std::vector<Point> curve;
  std::size_t peak = 0;  // the first point at which most is held; 0 if there is none
  std::int64_t peak_bytes = 0;  // of the whole step: the largest of memory_curve
  std::string peak_node;                // that the peak's instruction serves; its name if it serves none
  std::vector<HeldTensor> peak_tensors;  // held at the peak; the largest first, then by kind and by name

  // Of the whole step.
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;  // all of them, as the updates take them
  std::int64_t optimizer_bytes = 0;
  // Kept from a forward to its backward: activations, and inputs that the backward reads, but no parameters. With several
  // microbatches, where that is most: as many of them as are in flight.
  std::int64_t saved_bytes = 0;
  std::vector<NodeMemory> nodes;  // in the order in which they first compute
};

// `program` is finished: its values are freed after their last use.
MESHWRIGHT_API MemoryProfile memory_profile(const Program& program);

// How many groups of devices one rank exchanges data in: one for each product of mesh axes that a collective goes over,
// and the group of all devices for what is sent from one to another. A library of collectives keeps a communicator,
// with buffers, for each.
MESHWRIGHT_API std::int64_t communicators(const Program& program);
// The same of several programs on the same devices: those of one mesh share them.
MESHWRIGHT_API std::int64_t communicators(std::span<const Program* const> programs);

// What a device of the cluster holds at the peak. `profile` is the program's.
MESHWRIGHT_API MemoryAccount memory_account(const Cluster& cluster, const Program& program,
                                            const MemoryProfile& profile);

}  // namespace meshwright
