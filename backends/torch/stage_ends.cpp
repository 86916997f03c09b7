#include "stage_ends.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "meshwright/program.h"

namespace meshwright::torch {

namespace {

// Of one dimension, the elements [start, start + extent) of a factor of this size, times all of those behind it.
struct HeldStretch {
  std::int64_t size = 1, start = 0, extent = 1;
  bool operator==(const HeldStretch&) const = default;
};

// Which elements of each dimension a rank holds, alike for all ways of writing a dimension as a product of atoms.
std::vector<std::vector<HeldStretch>> held(const ShardedType& tensor, const Mesh& mesh, const std::vector<std::int64_t>& coordinates) {
  const Box box = box_of(tensor.layout, tensor.atoms, mesh, coordinates);
  std::vector<std::vector<HeldStretch>> dimensions;
  std::size_t atom = 0;
  for (const std::uint8_t count : tensor.atoms.atoms_of_dimension) {
    std::vector<HeldStretch>& stretches = dimensions.emplace_back();
    for (const std::size_t end = atom + count; atom < end; ++atom) {
      const HeldStretch next{tensor.atoms.sizes[atom], box.start[atom], box.extent[atom]};
      const bool is_whole = next.start == 0 && next.extent == next.size;
      if (stretches.empty() || (!is_whole && stretches.back().extent != 1)) {
        stretches.push_back(next);
        continue;
      }
      HeldStretch& last = stretches.back();
      last = {last.size * next.size, last.start * next.size + next.start, last.extent * next.extent};
    }
  }
  return dimensions;
}

// How a tensor that lies somewhere so is called on another mesh, with other atoms; nothing: no layout there says it.
std::optional<ShardedType> expressed(const ShardedType& tensor, const Mesh& from, const ShardedType& like, const Mesh& mesh) {
  std::vector<Placement> places{Placement::replicate()};
  for (std::size_t atom = 0; atom < like.atoms.sizes.size(); ++atom) places.push_back(Placement::shard(atom));
  ShardedType found = like;
  std::vector<std::size_t> chosen(mesh.rank(), 0);
  while (true) {
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) found.layout.place(axis, places[chosen[axis]]);
    if (fits(found.layout, found.atoms, mesh) && same_parts(tensor, from, found, mesh)) return found;
    std::size_t axis = 0;
    while (axis < mesh.rank() && ++chosen[axis] == places.size()) chosen[axis++] = 0;
    if (axis == mesh.rank()) return std::nullopt;
  }
}

const Instruction* message_of(const Program& program, InstructionKind kind, const std::string& value) {
  const auto is_it = [&](const Instruction& each) { return each.kind() == kind && each.phase == Phase::forward && each.message()->value == value; };
  const auto found = std::ranges::find_if(program.instructions, is_it);
  return found == program.instructions.end() ? nullptr : &*found;
}

// How one value travels.
struct Wire {
  ShardedType sent;                              // on the mesh of the stage that makes it
  std::map<std::uint32_t, ShardedType> received; // on those of the stages that use it
};

Wire wire_of(const StageBoundary& boundary, std::span<const BackendInput> stages) {
  const Program& maker = stages[boundary.from].program;
  const Instruction& send = *message_of(maker, InstructionKind::send, boundary.value);
  ShardedType as_made = maker.type(send.operands[0].value);
  for (std::size_t axis = 0; axis < maker.mesh.rank(); ++axis) {
    if (as_made.layout[axis].is_partial()) as_made.layout.place(axis, Placement::replicate());
  }
  std::map<std::uint32_t, ShardedType> wanted;
  for (const std::uint32_t stage : boundary.to) {
    const Program& user = stages[stage].program;
    wanted.emplace(stage, user.type(message_of(user, InstructionKind::receive, boundary.value)->results[0]));
  }
  std::vector<ShardedType> ways{as_made};
  for (const auto& [stage, type] : wanted) {
    if (std::optional<ShardedType> way = expressed(type, stages[stage].program.mesh, as_made, maker.mesh)) ways.push_back(std::move(*way));
  }
  ways.push_back(as_made);
  ways.back().layout = Layout(maker.mesh.rank());
  for (const ShardedType& way : ways) {
    Wire wire{way, {}};
    for (const auto& [stage, type] : wanted) {
      if (std::optional<ShardedType> there = expressed(way, maker.mesh, type, stages[stage].program.mesh)) wire.received.emplace(stage, std::move(*there));
    }
    if (wire.received.size() == wanted.size()) return wire;
  }
  return {ways.back(), std::move(wanted)};  // not reached: whole, it lies everywhere alike
}

ShardedType part_of(const ShardedType& sent, const Mesh& from, const Mesh& here) {
  ShardedType part;
  part.type = local_type(sent, from);
  part.atoms = whole_dimensions(part.type.shape);
  part.layout = Layout(here.rank());
  return part;
}

}  // namespace

bool same_parts(const ShardedType& a, const Mesh& a_mesh, const ShardedType& b, const Mesh& b_mesh) {
  if (a.type.shape != b.type.shape || a_mesh.devices() != b_mesh.devices()) return false;
  for (std::int64_t rank = 0; rank < a_mesh.devices(); ++rank) {
    if (held(a, a_mesh, coordinates_of(a_mesh, rank)) != held(b, b_mesh, coordinates_of(b_mesh, rank))) return false;
  }
  return true;
}

std::vector<StageEnds> stage_ends(const PipelinePlan& pipeline, std::span<const BackendInput> stages) {
  std::vector<StageEnds> ends(stages.size());
  for (const StageBoundary& boundary : pipeline.boundaries) {
    const Wire wire = wire_of(boundary, stages);
    const Mesh& made_on = stages[boundary.from].program.mesh;
    ends[boundary.from].sent.push_back({boundary.value, wire.sent, false});
    for (std::uint32_t stage = boundary.from + 1; stage <= boundary.to.back(); ++stage) {
      const auto used = wire.received.find(stage);
      const bool is_used = used != wire.received.end();
      ShardedType part = part_of(wire.sent, made_on, stages[stage].program.mesh);
      if (stage < boundary.to.back()) ends[stage].sent.push_back({boundary.value, part, true});
      ends[stage].received.push_back({boundary.value, is_used ? used->second : std::move(part), !is_used});
    }
  }
  return ends;
}

}  // namespace meshwright::torch
