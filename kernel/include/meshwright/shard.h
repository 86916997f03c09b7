// One rank's part of a tensor. Along every atom a rank holds one interval, so its part of a tensor is a box.
//
// A padded atom of n elements is cut as if it had n rounded up to a multiple of the number of devices, so that intervals
// nest whatever axes cut it: the last ranks hold fewer elements of the tensor, or none, and what they hold beyond is
// padding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/graph_builder.h"
#include "meshwright/layout.h"

namespace meshwright {

// A tensor of the whole program, and how it lies on the mesh.
struct ShardedType {
  TensorType type;  // whole
  AtomShape atoms;  // of `type`
  Layout layout;
  bool operator==(const ShardedType&) const = default;
};

// The type of the part that one rank holds.
MESHWRIGHT_API TensorType local_type(const ShardedType& tensor, const Mesh& mesh);

// A rank's position along each axis. Ranks are numbered row-major.
MESHWRIGHT_API std::vector<std::int64_t> coordinates_of(const Mesh& mesh, std::int64_t rank);
MESHWRIGHT_API std::int64_t rank_at(const Mesh& mesh, const std::vector<std::int64_t>& coordinates);

// Along each atom, the elements [start, start + extent) that a rank holds; padding included.
struct Box {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> extent;
  bool operator==(const Box&) const = default;

  [[nodiscard]] MESHWRIGHT_API std::int64_t elements() const;
};

MESHWRIGHT_API Box box_of(const Layout& layout, const AtomShape& atoms, const Mesh& mesh, const std::vector<std::int64_t>& coordinates);
MESHWRIGHT_API Box intersect(const Box& a, const Box& b);  // of elements() 0 if they share nothing

// Integers that depend on the rank: base[i] + Σ_axis coordinate[axis] · steps[axis][i].
struct RankIntegers {
  std::vector<std::int64_t> base;
  std::vector<std::vector<std::int64_t>> steps;  // by mesh axis
  bool operator==(const RankIntegers&) const = default;

  [[nodiscard]] MESHWRIGHT_API std::vector<std::int64_t> at(const std::vector<std::int64_t>& coordinates) const;
};

using RankAttributes = std::map<std::string, RankIntegers, std::less<>>;

using ProgramValueId = std::uint32_t;  // a value of a program, which is a ShardedType (program.h)

// Which of the global positions 0 .. n-1 along some neighbouring dimensions of a tensor a rank holds: how the program of
// one rank knows where it is in arange, a causal mask, a sharded vocabulary or a dropout's mask. It travels in an op's
// attributes, NAME_atoms, NAME_extents and NAME_starts; an op without them holds everything.
class ShardIndex {
 public:
  // Adds the attributes for dimensions [first, last) of `tensor`, if any of them is sharded.
  MESHWRIGHT_API static void describe(const ShardedType& tensor, std::size_t first, std::size_t last, const Mesh& mesh,
                                      const std::string& name, Attributes& attributes, RankAttributes& rank_attributes);

  // `size` positions, unless the node's attributes NAME_... say more.
  MESHWRIGHT_API ShardIndex(const Node& node, const std::string& name, std::int64_t size);

  // All positions of a tensor, row by row, and those that the rank at these coordinates holds.
  MESHWRIGHT_API ShardIndex(const ShardedType& tensor, const Mesh& mesh, const std::vector<std::int64_t>& coordinates);

  [[nodiscard]] std::int64_t global_size() const { return global_size_; }
  // The global position of local position `local`; -1 if that is padding.
  [[nodiscard]] MESHWRIGHT_API std::int64_t global(std::int64_t local) const;
  // The local position of global position `global`, in range; nothing if another rank holds it.
  [[nodiscard]] MESHWRIGHT_API std::optional<std::int64_t> local(std::int64_t global) const;

 private:
  void set_global_size();

  std::vector<std::int64_t> atoms_, extents_, starts_;
  std::int64_t global_size_ = 0;
};

}  // namespace meshwright
