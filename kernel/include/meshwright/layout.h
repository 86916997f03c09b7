// How a tensor lies on a mesh. Every dimension is an ordered product of atoms (DESIGN §2); a layout says for each
// mesh axis where it is: on one atom (the tensor is sharded over it), nowhere (replicated), or "partial": each device
// along the axis holds an addend. Axes on one atom stand in mesh order, the lower axis being the major one, so a
// placement for each axis says all.
//
// Text form, as in the MAP paper (§2.1) where dimensions are single atoms: "S0R", "S01R", "RR"; several atoms in
// brackets: "R[R S1 R]"; partial sums after a plus: "RR+P1".
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"

namespace meshwright {

// What one mesh axis does to a tensor: it shards an atom, it leaves the tensor replicated, or partial.
class Placement {
 public:
  static constexpr Placement replicate() { return Placement(0); }
  static constexpr Placement partial_sum() { return Placement(1); }
  static constexpr Placement partial_max() { return Placement(2); }
  static constexpr Placement shard(std::size_t atom) { return Placement(static_cast<std::uint8_t>(atom + 3)); }
  static constexpr std::size_t kMaxAtoms = 250;

  constexpr Placement() = default;
  [[nodiscard]] constexpr bool is_replicate() const { return code_ == 0; }
  [[nodiscard]] constexpr bool is_partial() const { return code_ == 1 || code_ == 2; }
  [[nodiscard]] constexpr bool is_shard() const { return code_ >= 3; }
  [[nodiscard]] constexpr std::size_t atom() const { return code_ - 3U; }  // only if is_shard()
  constexpr auto operator<=>(const Placement&) const = default;

 private:
  explicit constexpr Placement(std::uint8_t code) : code_(code) {}
  std::uint8_t code_ = 0;
};

// The atoms of a tensor: their sizes, major to minor, and for each dimension how many are its own. A dimension of
// size 1 has none.
struct AtomShape {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> atoms_of_dimension;
  std::vector<bool> paddable;  // as long as sizes: whether an axis need not divide the atom

  [[nodiscard]] MESHWRIGHT_API std::size_t first_atom(std::size_t dimension) const;
  [[nodiscard]] MESHWRIGHT_API std::size_t dimension_of(std::size_t atom) const;
  bool operator==(const AtomShape&) const = default;
};

// One atom for each dimension that is larger than 1.
MESHWRIGHT_API AtomShape whole_dimensions(const std::vector<std::int64_t>& shape);

class Layout {
 public:
  Layout() = default;
  explicit Layout(std::size_t mesh_rank) : rank_(static_cast<std::uint8_t>(mesh_rank)) {}  // replicated

  [[nodiscard]] std::size_t mesh_rank() const { return rank_; }
  [[nodiscard]] Placement operator[](std::size_t axis) const { return placements_[axis]; }
  void place(std::size_t axis, Placement placement) { placements_[axis] = placement; }
  [[nodiscard]] MESHWRIGHT_API bool has_partial() const;
  [[nodiscard]] MESHWRIGHT_API bool is_replicated() const;
  // Whether no later axis is on the same atom: then sharding or gathering this axis needs no permutation.
  [[nodiscard]] MESHWRIGHT_API bool is_innermost(std::size_t axis) const;
  auto operator<=>(const Layout&) const = default;

 private:
  std::array<Placement, kMaxMeshAxes> placements_{};
  std::uint8_t rank_ = 0;
};

// Over how many devices the layout cuts `atom`.
MESHWRIGHT_API std::int64_t shards_of_atom(const Layout& layout, const Mesh& mesh, std::size_t atom);
// Whether each atom is divided by its shards, or may be padded.
MESHWRIGHT_API bool fits(const Layout& layout, const AtomShape& shape, const Mesh& mesh);
// Elements of `atom` that one device holds (padding included).
MESHWRIGHT_API std::int64_t local_atom(const Layout& layout, const AtomShape& shape, const Mesh& mesh, std::size_t atom);
// Elements that one device holds (the largest share, where the atom is padded), and their bytes.
MESHWRIGHT_API std::int64_t local_elements(const Layout& layout, const AtomShape& shape, const Mesh& mesh);
MESHWRIGHT_API std::int64_t local_bytes(const Layout& layout, const AtomShape& shape, const Mesh& mesh, std::int64_t element_bytes);
// The local extent of each dimension.
MESHWRIGHT_API std::vector<std::int64_t> local_shape(const Layout& layout, const AtomShape& shape, const Mesh& mesh);

MESHWRIGHT_API std::string to_string(const Layout& layout, const AtomShape& shape);
MESHWRIGHT_API Result<Layout> parse_layout(std::string_view text, const AtomShape& shape, std::size_t mesh_rank);

}  // namespace meshwright
