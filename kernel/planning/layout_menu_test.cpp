#include "layout_menu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace {

using testing::ElementsAre;

Cluster servers(std::int64_t nodes, std::int64_t devices_per_node) {
  Cluster cluster;
  cluster.name = "servers";
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  cluster.levels = {{"server", devices_per_node, 20e9, 2e-6}};
  if (nodes > 1) cluster.levels.push_back({"network", nodes * devices_per_node, 1e9, 1e-5});
  return cluster;
}

Config recompute(const std::string& what) {
  Config search;
  search.set("recompute", what);
  return search;
}

std::vector<std::string> names(std::size_t axes, const std::string& what) {
  std::vector<std::string> names;
  for (const MenuLayout& layout : menu_layouts(axes, recompute(what))) names.push_back(to_string(layout, std::vector<std::int64_t>(axes, 2)));
  return names;
}

TEST(LayoutMenu, HasAMeshOfPrimeFactors) {
  EXPECT_THAT(menu_shape(servers(2, 4)), ElementsAre(2, 2, 2));
  EXPECT_THAT(menu_shape(servers(3, 20)), ElementsAre(3, 2, 2, 5));
  EXPECT_THAT(menu_shape(servers(1, 49)), ElementsAre(7, 7));
  EXPECT_TRUE(menu_shape(servers(1, 1)).empty());
}

TEST(LayoutMenu, HasEachNumberOfDataAxesWholeOrInShards) {
  EXPECT_THAT(names(3, "none"), ElementsAre("tp 8", "dp 2 x tp 4", "sdp 2 x tp 4", "dp 4 x tp 2", "sdp 4 x tp 2", "dp 8", "sdp 8"));
  EXPECT_THAT(names(1, "blocks"), ElementsAre("tp 2", "dp 2", "sdp 2", "tp 2, run again", "dp 2, run again", "sdp 2, run again"));
  EXPECT_THAT(names(1, "all"), ElementsAre("tp 2, run again", "dp 2, run again", "sdp 2, run again"));
  EXPECT_THAT(names(0, "none"), ElementsAre("one device"));
}

TEST(LayoutMenu, AnEntryIsSettingsOfTheSearch) {
  const Config sharded = search_of_layout(recompute("blocks"), {2, true, true}, 3);
  EXPECT_EQ(sharded.text("batch_axes"), "0,1");
  EXPECT_EQ(sharded.text("weights"), "2");
  EXPECT_EQ(sharded.text("zero"), "3");
  EXPECT_EQ(sharded.text("zero_axes"), "0,1");
  EXPECT_EQ(sharded.text("recompute"), "all");
  const Config tensor = search_of_layout(recompute("none"), {0, false, false}, 2);
  EXPECT_EQ(tensor.text("batch_axes"), "none");
  EXPECT_EQ(tensor.text("weights"), "0,1");
  EXPECT_EQ(tensor.text("zero"), "0");
  EXPECT_EQ(search_of_layout(recompute("none"), {2, false, false}, 2).text("weights"), "free");
}

// Whatever parameters do: what is gathered is what one of the two has more of the batch in shards.
TEST(LayoutMenu, AChangeGathersTheBatch) {
  const Mesh mesh = make_mesh(servers(2, 4), {2, 2, 2}).value();
  EXPECT_EQ(change_seconds(mesh, {1, false, false}, {1, true, true}, 1e6), 0);
  const double one = change_seconds(mesh, {1, false, false}, {2, false, false}, 1e6), both = change_seconds(mesh, {0, false, false}, {2, true, false}, 1e6);
  EXPECT_GT(one, 0);
  EXPECT_EQ(one, change_seconds(mesh, {2, false, false}, {1, false, false}, 1e6));
  EXPECT_GT(both, one);  // over the network
  EXPECT_LT(one, change_seconds(mesh, {1, false, false}, {2, false, false}, 2e6));
}

}  // namespace
}  // namespace meshwright
