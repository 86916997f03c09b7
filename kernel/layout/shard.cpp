#include "meshwright/shard.h"

#include <algorithm>

namespace meshwright {

TensorType local_type(const ShardedType& tensor, const Mesh& mesh) {
  return {tensor.type.dtype, local_shape(tensor.layout, tensor.atoms, mesh)};
}

std::vector<std::int64_t> coordinates_of(const Mesh& mesh, std::int64_t rank) {
  std::vector<std::int64_t> coordinates(mesh.rank());
  for (std::size_t axis = mesh.rank(); axis-- > 0;) {
    coordinates[axis] = rank % mesh.axes[axis].size;
    rank /= mesh.axes[axis].size;
  }
  return coordinates;
}

std::int64_t rank_at(const Mesh& mesh, const std::vector<std::int64_t>& coordinates) {
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) rank = rank * mesh.axes[axis].size + coordinates[axis];
  return rank;
}

std::int64_t Box::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t here : extent) product *= here;
  return product;
}

namespace {

// By how much a step along `axis` moves the start of a rank's interval of `atom`; axes stand in mesh order, major first.
std::int64_t start_step(const Layout& layout, const AtomShape& atoms, const Mesh& mesh, std::size_t atom, std::size_t axis) {
  if (layout[axis] != Placement::shard(atom)) return 0;
  std::int64_t step = local_atom(layout, atoms, mesh, atom);
  for (std::size_t inner = axis + 1; inner < layout.mesh_rank(); ++inner) {
    if (layout[inner] == layout[axis]) step *= mesh.axes[inner].size;
  }
  return step;
}

}  // namespace

Box box_of(const Layout& layout, const AtomShape& atoms, const Mesh& mesh, const std::vector<std::int64_t>& coordinates) {
  Box box;
  for (std::size_t atom = 0; atom < atoms.sizes.size(); ++atom) {
    std::int64_t start = 0;
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
      start += coordinates[axis] * start_step(layout, atoms, mesh, atom, axis);
    }
    box.start.push_back(start);
    box.extent.push_back(local_atom(layout, atoms, mesh, atom));
  }
  return box;
}

Box intersect(const Box& a, const Box& b) {
  Box both;
  for (std::size_t i = 0; i < a.start.size(); ++i) {
    const std::int64_t start = std::max(a.start[i], b.start[i]);
    const std::int64_t end = std::min(a.start[i] + a.extent[i], b.start[i] + b.extent[i]);
    both.start.push_back(start);
    both.extent.push_back(std::max<std::int64_t>(0, end - start));
  }
  return both;
}

std::vector<std::int64_t> RankIntegers::at(const std::vector<std::int64_t>& coordinates) const {
  std::vector<std::int64_t> values = base;
  for (std::size_t axis = 0; axis < steps.size(); ++axis) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += coordinates[axis] * steps[axis][i];
  }
  return values;
}

void ShardIndex::describe(const ShardedType& tensor, std::size_t first, std::size_t last, const Mesh& mesh,
                          const std::string& name, Attributes& attributes, RankAttributes& rank_attributes) {
  std::vector<std::int64_t> sizes, extents;
  RankIntegers starts;
  starts.steps.resize(mesh.rank());
  for (std::size_t dimension = first; dimension < last; ++dimension) {
    const std::size_t begin = tensor.atoms.first_atom(dimension);
    for (std::size_t atom = begin; atom < begin + tensor.atoms.atoms_of_dimension[dimension]; ++atom) {
      sizes.push_back(tensor.atoms.sizes[atom]);
      extents.push_back(local_atom(tensor.layout, tensor.atoms, mesh, atom));
      starts.base.push_back(0);
      for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
        starts.steps[axis].push_back(start_step(tensor.layout, tensor.atoms, mesh, atom, axis));
      }
    }
  }
  if (sizes == extents) return;
  attributes[name + "_atoms"] = std::move(sizes);
  attributes[name + "_extents"] = std::move(extents);
  rank_attributes[name + "_starts"] = std::move(starts);
}

ShardIndex::ShardIndex(const Node& node, const std::string& name, std::int64_t size)
    : atoms_(node.integers(name + "_atoms")),
      extents_(node.integers(name + "_extents")),
      starts_(node.integers(name + "_starts")) {
  if (atoms_.empty() || atoms_.size() != extents_.size() || atoms_.size() != starts_.size()) {
    atoms_ = extents_ = {size};
    starts_ = {0};
  }
  set_global_size();
}

ShardIndex::ShardIndex(const ShardedType& tensor, const Mesh& mesh, const std::vector<std::int64_t>& coordinates)
    : atoms_(tensor.atoms.sizes) {
  Box box = box_of(tensor.layout, tensor.atoms, mesh, coordinates);
  extents_ = std::move(box.extent);
  starts_ = std::move(box.start);
  set_global_size();
}

void ShardIndex::set_global_size() {
  global_size_ = 1;
  for (const std::int64_t atom : atoms_) global_size_ *= atom;
}

std::int64_t ShardIndex::global(std::int64_t local) const {
  std::int64_t position = 0, stride = 1;
  for (std::size_t i = atoms_.size(); i-- > 0;) {
    const std::int64_t at = starts_[i] + local % extents_[i];
    if (at >= atoms_[i]) return -1;
    position += at * stride;
    stride *= atoms_[i];
    local /= extents_[i];
  }
  return position;
}

std::optional<std::int64_t> ShardIndex::local(std::int64_t global) const {
  std::int64_t position = 0, stride = 1;
  for (std::size_t i = atoms_.size(); i-- > 0;) {
    const std::int64_t at = global % atoms_[i] - starts_[i];
    if (at < 0 || at >= extents_[i]) return std::nullopt;
    position += at * stride;
    stride *= extents_[i];
    global /= atoms_[i];
  }
  return position;
}

}  // namespace meshwright
