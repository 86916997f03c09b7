#include <set>

#include "meshwright/memory_profile.h"

namespace meshwright {

namespace {

// Nothing leaves the device.
bool is_local(const Move& move) { return move.kind == MoveKind::slice || move.kind == MoveKind::keep_one; }

}  // namespace

std::int64_t communicators(const Program& program) {
  const AxisSet all = (AxisSet{1} << program.mesh.rank()) - 1;
  std::set<AxisSet> groups;
  for (const Instruction& instruction : program.instructions) {
    const Move* move = instruction.move();
    if (move == nullptr || is_local(*move)) continue;
    if (move->kind == MoveKind::permute || move->permutes_before || move->permutes_after) groups.insert(all);
    if (move->kind != MoveKind::permute) groups.insert(move->axes());
  }
  return static_cast<std::int64_t>(groups.size());
}

MemoryAccount memory_account(const Cluster& cluster, const Program& program, const MemoryProfile& profile) {
  std::vector<std::int64_t> tensors;
  for (const HeldTensor& tensor : profile.peak_tensors) {
    std::int64_t rest = tensor.bytes;
    for (std::int64_t copy = 1; copy < tensor.copies; ++copy, rest -= tensors.back())
      tensors.push_back(tensor.bytes / tensor.copies);
    tensors.push_back(rest);
  }
  return memory_account(cluster, tensors, communicators(program));
}

}  // namespace meshwright
