// An N-dimensional arrangement of a cluster's devices, row-major: the last axis steps through neighbours. All groups
// of devices along one axis are alike, and each is priced by its slowest link (DESIGN §2).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/export.h"
#include "meshwright/result.h"

namespace meshwright {

inline constexpr std::size_t kMaxMeshAxes = 16;  // of size 2 or more each: 65536 devices and up

using AxisSet = std::uint32_t;  // a bit for each axis of a mesh

// One point of a curve: what a ring's traffic takes, by the bytes of the whole (BusBandwidth).
struct RingPoint {
  double bytes = 0;
  double seconds_per_byte = 0;
};

struct MeshAxis {
  std::int64_t size = 1;
  double alpha_seconds = 0;           // latency of one message between neighbours on the axis
  double beta_seconds_per_byte = 0;   // of a ring in one group, when all groups of the axis talk at once
  std::string slowest_link;           // the level that binds
  // What one device sends by itself, where all do: to one peer, and of each byte that it holds to all others, of which each gets an equal
  // part. A device has its own card only, however many a ring of its server uses. 0: as in a ring.
  double own_beta_seconds_per_byte = 0;
  double exchange_beta_seconds_per_byte = 0;
  double skew_seconds = 0;            // what a collective waits for the last of its ranks
  std::vector<RingPoint> ring = {};  // measured; none: alpha and beta say it
  std::map<CollectiveKind, std::vector<RingPoint>> own = {};  // measured for one collective alone; none: `ring`, where it is one
};

struct Mesh {
  std::vector<MeshAxis> axes;
  std::map<AxisSet, MeshAxis> joint = {};  // of several axes, what their cluster gives to the product of their groups (make_mesh)

  [[nodiscard]] MESHWRIGHT_API std::int64_t devices() const;
  // The product of the groups of these axes, as one axis. Where no cluster gave it, the slowest of them binds.
  [[nodiscard]] MESHWRIGHT_API MeshAxis along(AxisSet axes) const;
  [[nodiscard]] std::size_t rank() const { return axes.size(); }
};

MESHWRIGHT_API std::string to_string(const Mesh& mesh);  // "2x4"

// Collectives go over the product of several axes where a mesh has at most so many; else over one axis after the other.
inline constexpr std::size_t kMostJointAxes = 4;

// What a cluster gives to the products of several axes of a mesh that covers it; those of a larger mesh stay as they are.
MESHWRIGHT_API void describe_joint_axes(const Cluster& cluster, Mesh& mesh);

// "2x4", "8", "2x2x2" → sizes. Errors: bad_input.
MESHWRIGHT_API Result<std::vector<std::int64_t>> parse_mesh_shape(std::string_view text);

// Lays the cluster's devices out as `shape`, whose product must be their number. Axes of size 1 are left out.
// Errors: bad_input.
MESHWRIGHT_API Result<Mesh> make_mesh(const Cluster& cluster, const std::vector<std::int64_t>& shape);

// The shapes worth trying: every ordered factorization of nodes followed by every one of devices per node, with at
// most `max_axes` axes in all, fewest axes first, then lexicographic. No axis crosses from one server into a part of
// another, but for the single flat axis.
MESHWRIGHT_API std::vector<std::vector<std::int64_t>> candidate_shapes(const Cluster& cluster, std::size_t max_axes);

}  // namespace meshwright
