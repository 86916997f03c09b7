#include "meshwright/layout.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace meshwright {

std::size_t AtomShape::first_atom(std::size_t dimension) const {
  return std::accumulate(atoms_of_dimension.begin(), atoms_of_dimension.begin() + static_cast<std::ptrdiff_t>(dimension),
                         std::size_t{0});
}

std::size_t AtomShape::dimension_of(std::size_t atom) const {
  std::size_t dimension = 0;
  for (std::size_t end = atoms_of_dimension[0]; atom >= end; end += atoms_of_dimension[dimension]) ++dimension;
  return dimension;
}

AtomShape whole_dimensions(const std::vector<std::int64_t>& shape) {
  AtomShape atoms;
  for (const std::int64_t size : shape) {
    atoms.atoms_of_dimension.push_back(size != 1 ? 1 : 0);
    if (size != 1) atoms.sizes.push_back(size);
  }
  atoms.paddable.assign(atoms.sizes.size(), false);
  return atoms;
}

bool Layout::has_partial() const {
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (placements_[axis].is_partial()) return true;
  }
  return false;
}

bool Layout::is_replicated() const {
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (!placements_[axis].is_replicate()) return false;
  }
  return true;
}

bool Layout::is_innermost(std::size_t axis) const {
  for (std::size_t later = axis + 1; later < rank_; ++later) {
    if (placements_[later] == placements_[axis]) return false;
  }
  return true;
}

namespace {

// Over how many devices a layout cuts each atom that it cuts.
class CutAtoms {
 public:
  CutAtoms(const Layout& layout, const Mesh& mesh) {
    for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
      if (layout[axis].is_shard()) add(layout[axis].atom(), mesh.axes[axis].size);
    }
  }

  struct Cut {
    std::size_t atom;
    std::int64_t shards;
  };
  [[nodiscard]] std::span<const Cut> all() const { return {cuts_.data(), count_}; }
  [[nodiscard]] std::int64_t shards(std::size_t atom) const {
    for (const Cut& cut : all()) {
      if (cut.atom == atom) return cut.shards;
    }
    return 1;
  }

 private:
  void add(std::size_t atom, std::int64_t devices) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (cuts_[i].atom != atom) continue;
      cuts_[i].shards *= devices;
      return;
    }
    cuts_[count_++] = {atom, devices};
  }

  std::array<Cut, kMaxMeshAxes> cuts_;
  std::size_t count_ = 0;
};

// Intervals of a padded atom nest whatever axes cut it (shard.h).
std::int64_t padded_size(const AtomShape& shape, const Mesh& mesh, std::size_t atom) {
  const std::int64_t size = shape.sizes[atom];
  if (!shape.paddable[atom]) return size;
  const std::int64_t devices = mesh.devices();
  return size >= devices ? (size + devices - 1) / devices * devices : size;
}

std::int64_t local_size(const CutAtoms& cuts, const AtomShape& shape, const Mesh& mesh, std::size_t atom) {
  const std::int64_t shards = cuts.shards(atom);
  return shards == 1 ? shape.sizes[atom] : padded_size(shape, mesh, atom) / shards;
}

}  // namespace

std::int64_t shards_of_atom(const Layout& layout, const Mesh& mesh, std::size_t atom) { return CutAtoms(layout, mesh).shards(atom); }

bool fits(const Layout& layout, const AtomShape& shape, const Mesh& mesh) {
  return std::ranges::all_of(CutAtoms(layout, mesh).all(), [&](const CutAtoms::Cut& cut) {
    if (cut.atom >= shape.sizes.size()) return false;
    const std::int64_t padded = padded_size(shape, mesh, cut.atom);
    // Padding must leave no device without elements.
    return padded % cut.shards == 0 && padded / cut.shards * (cut.shards - 1) < shape.sizes[cut.atom];
  });
}

std::int64_t local_atom(const Layout& layout, const AtomShape& shape, const Mesh& mesh, std::size_t atom) {
  return local_size(CutAtoms(layout, mesh), shape, mesh, atom);
}

std::int64_t local_bytes(const Layout& layout, const AtomShape& shape, const Mesh& mesh, std::int64_t element_bytes) {
  return local_elements(layout, shape, mesh) * element_bytes;
}

std::int64_t local_elements(const Layout& layout, const AtomShape& shape, const Mesh& mesh) {
  const CutAtoms cuts(layout, mesh);
  std::int64_t elements = 1;
  for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) elements *= local_size(cuts, shape, mesh, atom);
  return elements;
}

std::vector<std::int64_t> local_shape(const Layout& layout, const AtomShape& shape, const Mesh& mesh) {
  const CutAtoms cuts(layout, mesh);
  std::vector<std::int64_t> extents;
  std::size_t atom = 0;
  for (const std::uint8_t atoms : shape.atoms_of_dimension) {
    std::int64_t extent = 1;
    for (std::size_t i = 0; i < atoms; ++i) extent *= local_size(cuts, shape, mesh, atom++);
    extents.push_back(extent);
  }
  return extents;
}

}  // namespace meshwright
