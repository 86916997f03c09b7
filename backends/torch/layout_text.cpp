#include "layout_text.h"

#include <algorithm>

#include "python_text.h"

namespace meshwright::torch {

namespace {

bool has_single_atoms(const AtomShape& atoms) {
  return std::all_of(atoms.atoms_of_dimension.begin(), atoms.atoms_of_dimension.end(), [](std::uint8_t count) { return count <= 1; });
}

// Where an atom is in a rank's tensor: in its shape, or in a view of it by atoms.
class Place {
 public:
  Place(const ShardedType& before, const ShardedType& after, const Mesh& mesh)
      : before_(before), after_(after), mesh_(mesh), plain_(has_single_atoms(before.atoms)) {}

  std::string dimension(std::size_t atom) const { return std::to_string(plain_ ? before_.atoms.dimension_of(atom) : atom); }

  // ", view=(2, 3, 4), shape=(2, 24)" where dimensions have several atoms.
  std::string view() const {
    if (plain_) return "";
    std::vector<std::int64_t> sizes;
    for (std::size_t atom = 0; atom < before_.atoms.sizes.size(); ++atom) sizes.push_back(local(before_, atom));
    return ", view=" + tuple(sizes) + ", shape=" + tuple(local_type(after_, mesh_).shape);
  }

  // ", size=10" where the extent of the atom after the move is not that before it times or over the axis.
  std::string gathered_size(std::size_t atom, std::size_t axis, const char* name = "size") const {
    const std::int64_t size = local(after_, atom);
    return size == local(before_, atom) * mesh_.axes[axis].size ? "" : std::string(", ") + name + "=" + std::to_string(size);
  }
  std::string cut_size(std::size_t atom, std::size_t axis, const char* name = "size") const {
    const std::int64_t size = local(after_, atom);
    return size * mesh_.axes[axis].size == local(before_, atom) ? "" : std::string(", ") + name + "=" + std::to_string(size);
  }

 private:
  std::int64_t local(const ShardedType& tensor, std::size_t atom) const { return local_atom(tensor.layout, tensor.atoms, mesh_, atom); }

  const ShardedType &before_, &after_;
  const Mesh& mesh_;
  bool plain_;
};

std::string relayout(const ShardedType& before, const ShardedType& after, const Mesh& mesh) {
  return "relayout(" + layout(before, mesh) + ", " + layout(after, mesh) + ")";
}

}  // namespace

std::string layout(const ShardedType& tensor, const Mesh& mesh) {
  std::vector<std::string> axes, dimensions;
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    const Placement placement = tensor.layout[axis];
    axes.push_back(placement.is_shard() ? std::to_string(placement.atom()) : placement.is_partial() ? "\"sum\"" : "None");
  }
  std::string text = "Layout(" + tuple(tensor.type.shape) + ", " + tuple(axes);
  std::size_t atom = 0;
  for (const std::uint8_t count : tensor.atoms.atoms_of_dimension) {
    std::vector<std::int64_t> sizes(tensor.atoms.sizes.begin() + static_cast<std::ptrdiff_t>(atom),
                                    tensor.atoms.sizes.begin() + static_cast<std::ptrdiff_t>(atom + count));
    dimensions.push_back(tuple(sizes));
    atom += count;
  }
  if (!has_single_atoms(tensor.atoms)) text += ", atoms=" + tuple(dimensions);
  std::vector<std::int64_t> padded;
  for (std::size_t i = 0; i < tensor.atoms.sizes.size(); ++i) {
    const std::int64_t shards = shards_of_atom(tensor.layout, mesh, i);
    const bool rounds = shards > 1 && local_atom(tensor.layout, tensor.atoms, mesh, i) * shards != tensor.atoms.sizes[i];
    if (rounds) padded.push_back(static_cast<std::int64_t>(i));
  }
  if (!padded.empty()) text += ", padded=" + tuple(padded);
  return text + ")";
}

std::vector<std::string> moves(const ShardedType& before, const Move& move, const Mesh& mesh) {
  ShardedType after = before;
  after.layout = move.result;
  const Place place(before, after, mesh);
  const std::string axis = std::to_string(move.axis);
  const Placement from = before.layout[move.axis], to = move.result[move.axis];
  if (move.permutes_before || move.permutes_after || move.kind == MoveKind::permute) {
    if (!from.is_partial()) return {relayout(before, after, mesh)};
    ShardedType summed = before;
    summed.layout.place(move.axis, Placement::replicate());
    return {"all_reduce(" + axis + ")", relayout(summed, after, mesh)};
  }
  switch (move.kind) {
    case MoveKind::slice: return {"cut(" + axis + ", dim=" + place.dimension(to.atom()) + place.view() + place.cut_size(to.atom(), move.axis) + ")"};
    case MoveKind::all_gather:
      return {"all_gather(" + axis + ", dim=" + place.dimension(from.atom()) + place.view() + place.gathered_size(from.atom(), move.axis) + ")"};
    case MoveKind::reduce_scatter:
      return {"reduce_scatter(" + axis + ", dim=" + place.dimension(to.atom()) + place.view() + place.cut_size(to.atom(), move.axis) + ")"};
    case MoveKind::all_to_all:
      return {"all_to_all(" + axis + ", gathered=" + place.dimension(from.atom()) + ", cut=" + place.dimension(to.atom()) + place.view() +
              place.gathered_size(from.atom(), move.axis, "gathered_size") + place.cut_size(to.atom(), move.axis, "cut_size") + ")"};
    case MoveKind::all_reduce:
      return {"all_reduce(" + axis + (from == Placement::partial_max() ? ", op=\"max\")" : ")")};
    case MoveKind::keep_one: return {"keep_one(" + axis + ")"};
    case MoveKind::permute: break;
  }
  return {};
}

}  // namespace meshwright::torch
