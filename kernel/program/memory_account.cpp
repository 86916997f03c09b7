#include <array>
#include <set>
#include <string>
#include <utility>

#include "meshwright/memory_profile.h"

namespace meshwright {

namespace {

// Nothing leaves the device.
bool is_local(const Move& move) { return move.kind == MoveKind::slice || move.kind == MoveKind::keep_one; }

}  // namespace

std::int64_t communicators(const Program& program) { return communicators(std::array<const Program*, 1>{&program}); }

std::int64_t communicators(std::span<const Program* const> programs) {
  std::set<std::pair<std::string, AxisSet>> groups;  // by mesh
  for (const Program* program : programs) {
    const AxisSet all = (AxisSet{1} << program->mesh.rank()) - 1;
    const std::string mesh = to_string(program->mesh);
    for (const Instruction& instruction : program->instructions) {
      const Move* move = instruction.move();
      if (move == nullptr || is_local(*move)) continue;
      if (move->kind == MoveKind::permute || move->permutes_before || move->permutes_after) groups.emplace(mesh, all);
      if (move->kind != MoveKind::permute) groups.emplace(mesh, move->axes());
    }
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
