#include "meshwright/mesh.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace meshwright {

std::int64_t Mesh::devices() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  return product;
}

MeshAxis Mesh::along(AxisSet set) const {
  if (const auto found = joint.find(set); found != joint.end()) return found->second;
  if (std::has_single_bit(set) && set >> axes.size() == 0) return axes[static_cast<std::size_t>(std::countr_zero(set))];
  MeshAxis product;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if ((set >> i & 1U) == 0) continue;
    const MeshAxis& axis = axes[i];
    product.size *= axis.size;
    product.alpha_seconds = std::max(product.alpha_seconds, axis.alpha_seconds);
    product.skew_seconds = std::max(product.skew_seconds, axis.skew_seconds);
    if (axis.beta_seconds_per_byte < product.beta_seconds_per_byte) continue;
    product.beta_seconds_per_byte = axis.beta_seconds_per_byte;
    product.slowest_link = axis.slowest_link;
  }
  return product;
}

std::string to_string(const Mesh& mesh) {
  if (mesh.axes.empty()) return "1";
  std::string text;
  for (const MeshAxis& axis : mesh.axes) {
    if (!text.empty()) text += 'x';
    text += std::to_string(axis.size);
  }
  return text;
}

// Of which those of size 1 are left out later.
static constexpr std::size_t kMostSizes = 64;

Result<std::vector<std::int64_t>> parse_mesh_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t size = 0;
    const auto [after, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || (after != end && *after != 'x')) {
      return bad_input("mesh '" + std::string(text) + "': write axis sizes like 8, 2x4 or 2x2x2");
    }
    if (shape.size() == kMostSizes) return bad_input("a mesh of more than " + std::to_string(kMostSizes) + " axes: at most " + std::to_string(kMaxMeshAxes) + " are supported");
    shape.push_back(size);
    if (after == end) return shape;
    at = after + 1;
  }
}

namespace {

struct Stride {
  std::int64_t size = 1;
  std::int64_t stride = 1;  // from one device to the next
};

// The curves that were measured in groups of as many devices, or of as near below as there are, or of the fewest. They are of groups that have
// all devices of an inner group: of those that have fewer the rings are fewer, where cards are ganged.
void read_curves(const LinkLevel& level, std::int64_t inside, std::int64_t inner, MeshAxis& axis) {
  const double whole = static_cast<double>(level.ganged ? inner : level.sharers);
  const double fewer = std::max(1.0, whole / static_cast<double>(inside));
  const auto nearest = [&](std::optional<CollectiveKind> only) {
    const BusBandwidth* best = nullptr;
    for (const BusBandwidth& each : level.measured) {
      if (each.only != only) continue;
      const auto rank = [&](const BusBandwidth& one) { return std::pair(one.devices <= axis.size, one.devices <= axis.size ? one.devices : -one.devices); };
      if (best == nullptr || rank(each) > rank(*best)) best = &each;
    }
    std::vector<RingPoint> curve;
    for (std::size_t i = 0; best != nullptr && i < best->bytes.size(); ++i) curve.push_back({best->bytes[i], fewer / best->bytes_per_second[i]});
    return curve;
  };
  axis.ring = nearest(std::nullopt);
  axis.own.clear();
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (std::vector<RingPoint> curve = nearest(kind); !curve.empty()) axis.own[kind] = std::move(curve);
  }
}

// What one group of devices sees of one level, for the devices of the group that lie in one inner group of so many.
void apply_level(const LinkLevel& level, std::int64_t inside, std::int64_t inner, MeshAxis& axis, double& slowest) {
  double rate = level.bytes_per_second;
  if (level.sharers > inside) rate /= static_cast<double>(level.sharers) / static_cast<double>(inside);
  if (level.ganged && inside > level.sharers) rate *= static_cast<double>(inside) / static_cast<double>(level.sharers);
  axis.alpha_seconds = std::max(axis.alpha_seconds, level.latency_seconds);
  const double own = static_cast<double>(level.sharers) / level.bytes_per_second;
  axis.own_beta_seconds_per_byte = std::max(axis.own_beta_seconds_per_byte, own);
  const double elsewhere = static_cast<double>(axis.size - inside) / static_cast<double>(axis.size);
  axis.exchange_beta_seconds_per_byte = std::max(axis.exchange_beta_seconds_per_byte, elsewhere * own);
  if (slowest == 0 || rate < slowest) {
    slowest = rate;
    axis.slowest_link = level.name;
    read_curves(level, inside, inner, axis);
  }
}

// The latest of so many ranks, whose delays are distributed exponentially, over the mean one: H(n) - 1.
double latest_of(std::int64_t ranks) {
  double sum = 0;
  for (std::int64_t i = 2; i <= ranks; ++i) sum += 1 / static_cast<double>(i);
  return sum;
}

// Where the devices of a group lie, seen from its first one, if the group goes over these axes, each of so many devices so far apart.
std::vector<std::int64_t> offsets_over(const std::vector<Stride>& axes) {
  std::vector<std::int64_t> offsets = {0};
  for (const auto& [size, stride] : axes) {
    std::vector<std::int64_t> further;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < size; ++i) further.push_back(offset + i * stride);
    }
    offsets = std::move(further);
  }
  return offsets;
}

// The groups over these axes of a mesh that covers the cluster; from the outermost axis to the innermost.
MeshAxis describe_group(const Cluster& cluster, const std::vector<Stride>& axes) {
  const std::vector<std::int64_t> offsets = offsets_over(axes);
  MeshAxis axis;
  axis.size = static_cast<std::int64_t>(offsets.size());
  axis.skew_seconds = cluster.device.skew_seconds * latest_of(axis.size);
  double slowest = 0;
  for (std::int64_t base = 0; base < cluster.devices(); ++base) {
    if (!std::ranges::all_of(axes, [&](const Stride& each) { return base / each.stride % each.size == 0; })) continue;
    std::int64_t inner = 1;
    for (const LinkLevel& level : cluster.levels) {
      std::int64_t inside = 0;  // devices of this group in the first one's inner group
      bool crosses = false;     // whether the group leaves an inner group without leaving this level's
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        const std::int64_t device = base + offsets[i];
        const bool same_inner = device / inner == base / inner;
        if (same_inner) ++inside;
        if (i > 0) {
          const std::int64_t previous = base + offsets[i - 1];
          crosses |= device / inner != previous / inner && device / level.group == previous / level.group;
        }
      }
      if (crosses) apply_level(level, inside, inner, axis, slowest);
      inner = level.group;
    }
  }
  axis.beta_seconds_per_byte = slowest > 0 ? 1.0 / slowest : 0;
  return axis;
}

void factorize(std::int64_t number, std::size_t axes, std::vector<std::int64_t>& prefix,
               std::vector<std::vector<std::int64_t>>& found) {
  if (axes == 0) {
    if (number == 1) found.push_back(prefix);
    return;
  }
  for (std::int64_t size = 2; size <= number; ++size) {
    if (number % size != 0) continue;
    prefix.push_back(size);
    factorize(number / size, axes - 1, prefix, found);
    prefix.pop_back();
  }
}

// Every ordered way to write `number` as a product of exactly `axes` factors of 2 or more.
std::vector<std::vector<std::int64_t>> factorizations(std::int64_t number, std::size_t axes) {
  std::vector<std::vector<std::int64_t>> found;
  std::vector<std::int64_t> prefix;
  factorize(number, axes, prefix, found);
  return found;
}

}  // namespace

Result<Mesh> make_mesh(const Cluster& cluster, const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 1 || __builtin_mul_overflow(product, size, &product)) return bad_input("a mesh with axes that are impossibly large, or smaller than 1");
  }
  if (product != cluster.devices()) {
    return bad_input("a mesh of " + std::to_string(product) + " devices does not cover the cluster '" + cluster.name +
                     "', which has " + std::to_string(cluster.devices()));
  }
  Mesh mesh;
  std::int64_t stride = product;
  for (const std::int64_t size : shape) {
    stride /= size;
    if (size > 1) mesh.axes.push_back(describe_group(cluster, {{size, stride}}));
  }
  if (mesh.rank() > kMaxMeshAxes) {
    return bad_input("a mesh of " + std::to_string(mesh.rank()) + " axes: at most " + std::to_string(kMaxMeshAxes) +
                     " are supported");
  }
  describe_joint_axes(cluster, mesh);
  return mesh;
}

void describe_joint_axes(const Cluster& cluster, Mesh& mesh) {
  if (mesh.rank() > kMostJointAxes) return;
  std::vector<Stride> strides;
  std::int64_t stride = mesh.devices();
  for (const MeshAxis& axis : mesh.axes) strides.push_back({axis.size, stride /= axis.size});
  for (AxisSet set = 1; set < AxisSet{1} << mesh.rank(); ++set) {
    if (std::popcount(set) < 2) continue;
    std::vector<Stride> axes;
    for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
      if ((set >> axis & 1U) != 0) axes.push_back(strides[axis]);
    }
    mesh.joint[set] = describe_group(cluster, axes);
  }
}

std::vector<std::vector<std::int64_t>> candidate_shapes(const Cluster& cluster, std::size_t max_axes) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (cluster.devices() == 1) return {{1}};
  shapes.push_back({cluster.devices()});
  for (std::size_t axes = 1; axes <= max_axes; ++axes) {
    for (std::size_t outer = 0; outer <= axes; ++outer) {
      for (const auto& across : factorizations(cluster.nodes, outer)) {
        for (const auto& within : factorizations(cluster.devices_per_node, axes - outer)) {
          std::vector<std::int64_t> shape = across;
          shape.insert(shape.end(), within.begin(), within.end());
          if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(std::move(shape));
        }
      }
    }
  }
  return shapes;
}

}  // namespace meshwright
