#include "meshwright/shard.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  Mesh mesh;
  for (const std::int64_t size : sizes) mesh.axes.push_back({size, 0, 0, ""});
  return mesh;
}

// 3·4·2 columns, of which the 4 are cut by the second axis.
const ShardedType kHeads = [] {
  ShardedType tensor{{DType::float32, {5, 24}}, {{5, 3, 4, 2}, {1, 3}, {false, false, false, false}}, Layout(2)};
  tensor.layout.place(1, Placement::shard(2));
  return tensor;
}();

TEST(Shard, IsABoxOfAtoms) {
  const Mesh mesh = mesh_of({2, 2});
  EXPECT_EQ(local_type(kHeads, mesh).shape, (std::vector<std::int64_t>{5, 12}));
  const Box box = box_of(kHeads.layout, kHeads.atoms, mesh, {1, 1});
  EXPECT_EQ(box.start, (std::vector<std::int64_t>{0, 0, 2, 0}));
  EXPECT_EQ(box.extent, (std::vector<std::int64_t>{5, 3, 2, 2}));
}

TEST(Shard, OfAPaddedAtomNests) {
  const Mesh mesh = mesh_of({2, 4});
  const AtomShape atoms{{50}, {1}, {true}};
  Layout outer(2), both(2);
  outer.place(0, Placement::shard(0));
  both.place(0, Placement::shard(0));
  both.place(1, Placement::shard(0));
  ASSERT_TRUE(fits(outer, atoms, mesh));
  ASSERT_TRUE(fits(both, atoms, mesh));
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    const auto at = coordinates_of(mesh, rank);
    EXPECT_EQ(rank_at(mesh, at), rank);
    const Box inside = box_of(both, atoms, mesh, at);
    EXPECT_EQ(intersect(inside, box_of(outer, atoms, mesh, at)), inside);
  }
  EXPECT_EQ(local_atom(both, atoms, mesh, 0), 7);    // 56 / 8
  EXPECT_EQ(local_atom(outer, atoms, mesh, 0), 28);  // 56 / 2
  EXPECT_EQ(local_atom(Layout(2), atoms, mesh, 0), 50);
}

TEST(Shard, OfAShortAtomIsNotPadded) {
  const Mesh mesh = mesh_of({2, 4});
  Layout layout(2);
  layout.place(0, Placement::shard(0));
  EXPECT_FALSE(fits(layout, {{5}, {1}, {true}}, mesh));
  EXPECT_TRUE(fits(layout, {{6}, {1}, {true}}, mesh));
}

TEST(ShardIndex, KnowsWhereEachElementStands) {
  const Mesh mesh = mesh_of({2, 2});
  Node node;
  RankAttributes rank_attributes;
  ShardIndex::describe(kHeads, 1, 2, mesh, "columns", node.attributes, rank_attributes);
  for (const auto& [name, integers] : rank_attributes) node.attributes[name] = integers.at({0, 1});
  const ShardIndex index(node, "columns", 12);
  EXPECT_EQ(index.global_size(), 24);
  std::vector<std::int64_t> columns;
  for (std::int64_t i = 0; i < 12; ++i) columns.push_back(index.global(i));
  EXPECT_EQ(columns, (std::vector<std::int64_t>{4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}));
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(index.local(columns[static_cast<std::size_t>(i)]), i);
  EXPECT_EQ(index.local(0), std::nullopt);
}

TEST(ShardIndex, OfAWholeDimensionIsTheIdentity) {
  Node node;
  RankAttributes rank_attributes;
  ShardIndex::describe(kHeads, 0, 1, mesh_of({2, 2}), "rows", node.attributes, rank_attributes);
  EXPECT_TRUE(node.attributes.empty());
  const ShardIndex index(node, "rows", 5);
  EXPECT_EQ(index.global(3), 3);
  EXPECT_EQ(index.local(4), 4);
}

TEST(ShardIndex, CallsPaddingMinusOne) {
  const Mesh mesh = mesh_of({8});
  ShardedType tensor{{DType::float32, {50}}, {{50}, {1}, {true}}, Layout(1)};
  tensor.layout.place(0, Placement::shard(0));
  Node node;
  RankAttributes rank_attributes;
  ShardIndex::describe(tensor, 0, 1, mesh, "rows", node.attributes, rank_attributes);
  for (const auto& [name, integers] : rank_attributes) node.attributes[name] = integers.at({7});
  const ShardIndex index(node, "rows", 7);
  EXPECT_EQ(index.global(0), 49);
  EXPECT_EQ(index.global(1), -1);
}

}  // namespace
}  // namespace meshwright
