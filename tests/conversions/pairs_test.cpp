// All pairs of layouts of a 3-D tensor, partial ones included: the path is executed on real numbers that lie on
// simulated devices, and what every device ends with is compared with what the target layout says it should hold.
#include <gtest/gtest.h>

#include <set>

#include "meshwright/conversion.h"
#include "plugins/plugin_registry.h"

namespace meshwright {
namespace {

std::shared_ptr<ConversionSearch> load(const char* id) {
  Result<host::PluginRegistry> registry = host::PluginRegistry::discover_in({PLUGIN_FOLDER});
  EXPECT_TRUE(registry.ok());
  Result<std::shared_ptr<ConversionSearch>> search = registry->create<ConversionSearch>("conversions", id, {});
  EXPECT_TRUE(search.ok());
  return *search;
}

CostProfile profile() {
  CostProfile made;
  made.device.memory_bytes_per_second = 1e12;
  made.device.vector_flops_per_second = 1e13;
  made.device.launch_seconds = 1e-6;
  return made;
}

Mesh mesh_of(std::initializer_list<std::int64_t> sizes) {
  Mesh mesh;
  double slower = 1;
  for (const std::int64_t size : sizes) mesh.axes.push_back({size, 5e-6 / slower, 1e-10 / slower, "link"}), slower *= 3;
  return mesh;
}

using Coordinates = std::vector<std::int64_t>;
using Axes = std::uint32_t;  // a bit for each axis

constexpr Axes bit(std::size_t axis) { return Axes{1} << axis; }

// What one device holds: a number for each element of the tensor, where it has the element.
struct Device {
  Coordinates at;
  std::vector<double> numbers;
  std::vector<bool> held;
};

class Machine {
 public:
  Machine(const Mesh& mesh, const AtomShape& shape) : mesh_(mesh), shape_(shape) {
    elements_ = 1;
    for (const std::int64_t size : shape.sizes) elements_ *= static_cast<std::size_t>(size);
    for (std::int64_t rank = 0; rank < mesh.devices(); ++rank) {
      Device device;
      std::int64_t rest = rank;
      for (std::size_t axis = mesh.rank(); axis-- > 0; rest /= mesh.axes[axis].size) {
        device.at.insert(device.at.begin(), rest % mesh.axes[axis].size);
      }
      devices_.push_back(std::move(device));
    }
  }

  // Lays the tensor out: partial values are addends that differ between devices.
  void fill(const Layout& layout) {
    for (Device& device : devices_) {
      device.numbers.assign(elements_, 0);
      device.held = holds(layout, device.at);
      const auto [position, others] = addend_of(layout, device.at);
      for (std::size_t i = 0; i < elements_; ++i) device.numbers[i] = position > 0 ? position : truth(i) - others;
    }
  }

  void apply(const Layout& from, const Move& move) {
    const std::vector<Device> before = devices_;
    for (Device& device : devices_) {
      device.held = holds(move.result, device.at);
      const Axes axes = talks_over(from, move);
      for (std::size_t i = 0; i < elements_; ++i) {
        if (device.held[i]) device.numbers[i] = fetch(before, axes, move, device, i);
      }
    }
  }

  // Whether every device holds what the layout says, and partial values sum to the truth.
  [[nodiscard]] bool holds_exactly(const Layout& layout) const {
    for (const Device& device : devices_) {
      if (device.held != holds(layout, device.at)) return false;
      const Axes axes = partial_axes(layout);
      for (std::size_t i = 0; i < elements_; ++i) {
        if (!device.held[i]) continue;
        double sum = 0;
        for (const Device& other : devices_) {
          if (differ_only(device.at, other.at, axes)) sum += other.numbers[i];
        }
        if (sum != truth(i)) return false;
      }
    }
    return true;
  }

 private:
  static double truth(std::size_t element) { return static_cast<double>(7 * element + 3); }

  static Axes partial_axes(const Layout& layout) {
    Axes axes = 0;
    for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
      if (layout[axis].is_partial()) axes |= bit(axis);
    }
    return axes;
  }

  static bool differ_only(const Coordinates& a, const Coordinates& b, Axes axes) {
    for (std::size_t axis = 0; axis < a.size(); ++axis) {
      if (a[axis] != b[axis] && (axes & bit(axis)) == 0) return false;
    }
    return true;
  }

  // What this device adds, if it is not the first of those that hold addends, and what the others add together.
  std::pair<double, double> addend_of(const Layout& layout, const Coordinates& at) const {
    std::int64_t position = 0, count = 1;
    for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
      if (!layout[axis].is_partial()) continue;
      position = position * mesh_.axes[axis].size + at[axis];
      count *= mesh_.axes[axis].size;
    }
    return {1000.0 * static_cast<double>(position), 1000.0 * static_cast<double>(count * (count - 1) / 2)};
  }

  // By definition: on each atom the axes in mesh order count blocks, the first axis being the major one.
  std::vector<bool> holds(const Layout& layout, const Coordinates& at) const {
    std::vector<bool> held = {true};
    for (std::size_t atom = 0; atom < shape_.sizes.size(); ++atom) {
      const auto size = static_cast<std::size_t>(shape_.sizes[atom]);
      std::size_t block = 0, blocks = 1;
      for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
        if (layout[axis] != Placement::shard(atom)) continue;
        block = block * static_cast<std::size_t>(mesh_.axes[axis].size) + static_cast<std::size_t>(at[axis]);
        blocks *= static_cast<std::size_t>(mesh_.axes[axis].size);
      }
      std::vector<bool> finer;
      finer.reserve(held.size() * size);
      for (const bool outer : held) {
        for (std::size_t index = 0; index < size; ++index) finer.push_back(outer && index / (size / blocks) == block);
      }
      held = std::move(finer);
    }
    return held;
  }

  // The axes along which a move may talk.
  static Axes talks_over(const Layout& from, const Move& move) {
    Axes axes = 0;
    if (move.kind == MoveKind::permute) axes = bit(move.axis) | bit(move.other_axis);
    if (move.kind == MoveKind::all_gather || move.kind == MoveKind::all_to_all) axes = move.axes();
    const auto add_same = [&](const Layout& layout) {
      for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
        if (layout[axis] == layout[move.axis]) axes |= bit(axis);
      }
    };
    if (move.permutes_before) add_same(from);
    if (move.permutes_after) add_same(move.result);
    return axes;
  }

  static double fetch(const std::vector<Device>& before, Axes axes, const Move& move, const Device& device,
                      std::size_t element) {
    if (move.kind == MoveKind::keep_one && device.at[move.axis] > 0) return 0;
    const bool reduces = move.kind == MoveKind::all_reduce || move.kind == MoveKind::reduce_scatter;
    for (const Device& source : before) {
      if (!differ_only(device.at, source.at, axes) || !source.held[element]) continue;
      if (!reduces) return source.numbers[element];
      double sum = 0;
      for (const Device& other : before) {
        if (!differ_only(source.at, other.at, move.axes())) continue;
        EXPECT_TRUE(other.held[element]);
        sum += other.numbers[element];
      }
      return sum;
    }
    ADD_FAILURE() << name(move.kind) << " over " << axes_text(move) << " needs an element that nobody in its group holds";
    return 0;
  }

  const Mesh& mesh_;
  const AtomShape& shape_;
  std::size_t elements_ = 0;
  std::vector<Device> devices_;
};

std::vector<Layout> all_layouts(const AtomShape& shape, const Mesh& mesh) {
  std::vector<Layout> layouts = {Layout(mesh.rank())};
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    std::vector<Layout> extended;
    for (const Layout& layout : layouts) {
      std::vector<Placement> options = {Placement::replicate(), Placement::partial_sum()};
      for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) options.push_back(Placement::shard(atom));
      for (const Placement option : options) {
        extended.push_back(layout);
        extended.back().place(axis, option);
      }
    }
    layouts = std::move(extended);
  }
  std::erase_if(layouts, [&](const Layout& layout) { return !fits(layout, shape, mesh); });
  return layouts;
}

void check_all_pairs(const Mesh& mesh, std::int64_t extent, std::size_t expected_layouts) {
  const AtomShape shape = whole_dimensions({extent, extent, extent});
  const CostProfile costs = profile();
  const ConversionProblem problem{mesh, shape, costs, 4, false};
  const auto greedy = load("greedy"), shortest = load("shortest_path");
  const std::vector<Layout> layouts = all_layouts(shape, mesh);
  ASSERT_EQ(layouts.size(), expected_layouts);
  const std::vector<PathPrice> prices = *shortest->price_all(problem, layouts);
  Machine machine(mesh, shape);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    for (std::size_t j = 0; j < layouts.size(); ++j) {
      const std::string what = to_string(layouts[i], shape) + " -> " + to_string(layouts[j], shape);
      Ticks ticks[2] = {}, host_ticks = 0;
      int which = 0;
      for (const auto& search : {greedy, shortest}) {
        const Result<ConversionPath> path = search->find(problem, layouts[i], layouts[j]);
        ASSERT_TRUE(path.ok()) << what << ": " << path.error().message;
        machine.fill(layouts[i]);
        Layout here = layouts[i];
        Ticks sum = 0;
        host_ticks = 0;
        for (const Move& move : path->moves) {
          const MovePrice price = move_price(problem, here, move);
          sum += price.ticks;
          host_ticks += price.host_ticks;
          machine.apply(here, move);
          here = move.result;
        }
        ASSERT_EQ(here, layouts[j]) << what;
        ASSERT_EQ(sum, path->ticks) << what;
        ASSERT_TRUE(machine.holds_exactly(layouts[j])) << what;
        ticks[which++] = path->ticks;
      }
      ASSERT_LE(ticks[1], ticks[0]) << what;
      ASSERT_EQ(ticks[1], prices[i * layouts.size() + j].ticks) << what;
      ASSERT_EQ(host_ticks, prices[i * layouts.size() + j].host_ticks) << what;
    }
  }
}

// 5 placements for each axis: R, P, and three dimensions.
TEST(AllPairs, On2x4) { check_all_pairs(mesh_of({2, 4}), 8, 25); }
TEST(AllPairs, On4x4) { check_all_pairs(mesh_of({4, 4}), 16, 25); }
TEST(AllPairs, On2x2x2) { check_all_pairs(mesh_of({2, 2, 2}), 8, 125); }

TEST(OneStep, OfS0RIsMapsList) {
  const Mesh mesh = mesh_of({2, 4});
  const AtomShape shape = whole_dimensions({64, 64});
  const CostProfile costs = profile();
  const ConversionProblem problem{mesh, shape, costs, 4, false};
  std::set<std::string> reached;
  for (const Move& move : one_step_moves(problem, *parse_layout("S0R", shape, 2))) {
    if (move.kind != MoveKind::keep_one) reached.insert(to_string(move.result, shape));
  }
  EXPECT_EQ(reached, (std::set<std::string>{"RR", "S0S1", "S01R", "RS0"}));
}

TEST(OneStep, LeavesOutWhatDoesNotDivide) {
  const Mesh mesh = mesh_of({2, 4});
  const AtomShape shape = whole_dimensions({4, 6});  // 4 is not divided by 2·4, and 6 not by 4
  const CostProfile costs = profile();
  const ConversionProblem problem{mesh, shape, costs, 4, false};
  std::set<std::string> reached;
  for (const Move& move : one_step_moves(problem, *parse_layout("S0R", shape, 2))) reached.insert(to_string(move.result, shape));
  EXPECT_EQ(reached, (std::set<std::string>{"RR", "RS0", "S0R+P1"}));
}

TEST(Price, OfANonInnermostGatherIncludesThePermutation) {
  const Mesh mesh = mesh_of({2, 4});
  const AtomShape shape = whole_dimensions({64, 64});
  const CostProfile costs = profile();
  const ConversionProblem problem{mesh, shape, costs, 4, false};
  const Layout from = *parse_layout("S01R", shape, 2);
  double inner = 0, outer = 0;
  for (const Move& move : one_step_moves(problem, from)) {
    if (move.kind != MoveKind::all_gather || move.joined != 0) continue;
    EXPECT_EQ(move.permutes_before, move.axis == 0);
    (move.axis == 0 ? outer : inner) = move_seconds(problem, from, move);
  }
  EXPECT_GT(inner, 0);
  EXPECT_GT(outer, collective_seconds(CollectiveKind::all_gather, mesh.axes[0], 64 * 64 * 4 / 8));
}

Move only(MoveKind kind, const ConversionProblem& problem, const Layout& from, AxisSet axes) {
  for (const Move& move : one_step_moves(problem, from)) {
    if (move.kind == kind && move.axes() == axes) return move;
  }
  ADD_FAILURE() << "no such move";
  return {};
}

// Two nodes of four devices, each with a card of its own.
Cluster two_nodes() {
  Cluster cluster;
  cluster.name = "two nodes";
  cluster.nodes = 2;
  cluster.devices_per_node = 4;
  cluster.levels = {{"inside", 4, 300e9, 1e-6, 1, false}, {"between", 8, 25e9, 5e-6, 1, true}};
  return cluster;
}

TEST(Joint, AReductionOverTwoAxesCostsNoMoreThanOnTheFlatMesh) {
  Cluster cluster;
  cluster.name = "one node";
  cluster.devices_per_node = 8;
  cluster.levels = {{"inside", 8, 300e9, 1e-6, 1, false}};
  const Mesh flat = *make_mesh(cluster, {8}), cut = *make_mesh(cluster, {2, 4});
  const AtomShape shape = whole_dimensions({1024, 1024});
  const CostProfile costs = profile();
  const ConversionProblem on_flat{flat, shape, costs}, on_cut{cut, shape, costs};
  const Layout over_one = *parse_layout("RR+P0", shape, 1), over_two = *parse_layout("RR+P01", shape, 2);
  const Move one = only(MoveKind::all_reduce, on_flat, over_one, 1), two = only(MoveKind::all_reduce, on_cut, over_two, 3);
  EXPECT_DOUBLE_EQ(move_seconds(on_cut, over_two, two), move_seconds(on_flat, over_one, one));
  EXPECT_EQ(joined(on_cut, over_two, in_turn(over_two, two)), std::vector<Move>{two});
  const auto shortest = load("shortest_path");
  EXPECT_LE(shortest->find(on_cut, over_two, Layout(2))->ticks, shortest->find(on_flat, over_one, Layout(1))->ticks);
}

TEST(Joint, ARingOverTwoNodesUsesAllTheirCards) {
  const Mesh mesh = *make_mesh(two_nodes(), {2, 4});
  EXPECT_EQ(mesh.along(3).size, 8);
  EXPECT_EQ(mesh.along(3).slowest_link, "between");
  EXPECT_DOUBLE_EQ(mesh.along(3).beta_seconds_per_byte, mesh.axes[0].beta_seconds_per_byte / 4);
  EXPECT_DOUBLE_EQ(mesh.along(3).alpha_seconds, 5e-6);
  EXPECT_DOUBLE_EQ(mesh.along(1).beta_seconds_per_byte, mesh.axes[0].beta_seconds_per_byte);
}

TEST(Joint, CostsNoMoreThanItsPartsOverAxesThatAreAlike) {
  const Mesh mesh = *make_mesh(two_nodes(), {2, 2, 2});  // 1 and 2 are inside of a node
  const AtomShape shape = whole_dimensions({64, 64});
  const CostProfile costs = profile();
  int alike = 0, others = 0;
  for (const bool packed : {false, true}) {
    const ConversionProblem problem{mesh, shape, costs, 4, packed};
    for (const Layout& from : all_layouts(shape, mesh)) {
      for (const Move& move : one_step_moves(problem, from)) {
        if (move.joined == 0) continue;
        double parts = 0;
        Layout here = from;
        for (const Move& single : in_turn(from, move)) {
          EXPECT_TRUE(find_move(problem, here, single) == single) << name(move.kind) << " over " << axes_text(move) << " of " << to_string(from, shape);
          parts += move_seconds(problem, here, single);
          here = single.result;
        }
        EXPECT_EQ(here, move.result);
        const bool is_alike = move.axes() == 6;
        ++(is_alike ? alike : others);
        EXPECT_TRUE(!is_alike || move_seconds(problem, from, move) <= parts + 1e-15) << name(move.kind) << " of " << to_string(from, shape);
      }
    }
  }
  EXPECT_GT(alike, 50);
  EXPECT_GT(others, 100);
}

// Of a large tensor each node first gathers what the other has, a part by each card; a ring over all would bring all over each card.
TEST(Joint, IsLeftWhereOneAfterTheOtherIsFaster) {
  Cluster cluster = two_nodes();
  cluster.levels[1].ganged = false;
  cluster.levels[1].sharers = 4;
  const Mesh mesh = *make_mesh(cluster, {2, 4});
  const AtomShape shape = whole_dimensions({4096, 4096});
  const CostProfile costs = profile();
  const ConversionProblem problem{mesh, shape, costs};
  const Layout from = *parse_layout("S0S1", shape, 2);
  const Result<ConversionPath> path = load("shortest_path")->find(problem, from, Layout(2));
  ASSERT_TRUE(path.ok());
  EXPECT_LE(path->ticks, move_price(problem, from, only(MoveKind::all_gather, problem, from, 3)).ticks);
  EXPECT_EQ(joined(problem, from, path->moves), path->moves);
}

TEST(Joint, NoPermutationHidesInIt) {
  const Mesh mesh = mesh_of({2, 2, 2});
  const AtomShape shape = whole_dimensions({64, 64});
  const CostProfile costs = profile();
  const ConversionProblem problem{mesh, shape, costs};
  std::set<AxisSet> gathered;
  for (const Move& move : one_step_moves(problem, *parse_layout("S02S1", shape, 3))) {
    if (move.kind == MoveKind::all_gather && move.joined != 0) gathered.insert(move.axes());
  }
  EXPECT_EQ(gathered, (std::set<AxisSet>{5, 6, 7}));  // not 0 and 1: axis 2 is inside of 0
}

}  // namespace
}  // namespace meshwright
