// A rebound batch is the batch of a real export: graphs are equal, literals included. MESHWRIGHT_TWINS=FOLDER compares
// all models of tests/models with what its export.py writes into that folder with another --batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "meshwright/frontend.h"
#include "meshwright/rebind.h"
#include "planning.h"

namespace meshwright {
namespace {

class Rebinding : public testing::Test {
 protected:
  Graph read(const std::string& path) const {
    Result<Graph> graph = frontend_->read(path);
    EXPECT_TRUE(graph) << graph.error().message;
    drop_dead_nodes(*graph);
    EXPECT_TRUE(gather_composites(*graph, *ops_)) << path;
    return *graph;
  }

  void expect_equal(const Graph& rebound, const Graph& exported) const {
    ASSERT_EQ(rebound.nodes.size(), exported.nodes.size());
    for (std::size_t i = 0; i < rebound.nodes.size(); ++i) {
      EXPECT_EQ(rebound.nodes[i].op, exported.nodes[i].op);
      for (const auto& [name, value] : exported.nodes[i].attributes) {
        EXPECT_TRUE(rebound.nodes[i].attributes.at(name) == value)
            << exported.nodes[i].op << " at '" << exported.nodes[i].name << "', " << name;
      }
    }
    for (std::size_t i = 0; i < rebound.values.size(); ++i) {
      EXPECT_EQ(to_string(rebound.values[i].type), to_string(exported.values[i].type)) << rebound.values[i].name;
    }
    EXPECT_TRUE(rebound == exported);
  }

  host::PluginHost host_ = test::open_host();
  std::shared_ptr<Frontend> frontend_ = host_.create<Frontend>("frontend", "torch_export").value();
  std::unique_ptr<OpTable> ops_ = host_.op_table().value();
};

TEST_F(Rebinding, GivesWhatAnExportGives) {
  const char* other = std::getenv("MESHWRIGHT_TWINS");
  const std::filesystem::path models = SOURCE_FOLDER "/tests/models", twins = other ? other : models / "batch_12";
  for (const auto& entry : std::filesystem::directory_iterator(twins)) {
    SCOPED_TRACE(entry.path().filename().string());
    const Graph exported = read(entry.path().string());
    const Graph graph = read((models / entry.path().filename()).string());
    const ValueId input = std::find_if(exported.sources.begin(), exported.sources.end(), [](const Source& source) {
                            return source.kind == SourceKind::user_input;
                          })->value;
    const Result<Graph> rebound = rebind_batch(graph, *ops_, exported.type(input).shape[0]);
    ASSERT_TRUE(rebound) << rebound.error().message;
    expect_equal(*rebound, exported);
  }
}

TEST_F(Rebinding, SaysWhatItCannotDo) {
  const Graph graph = read(SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2");
  const Result<Graph> none = rebind_batch(graph, *ops_, 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "a batch of 0 is asked for; it must be at least 1");
  const Graph single = rebind_batch(graph, *ops_, 1).value();
  const Result<Graph> back = rebind_batch(single, *ops_, 4);
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message, testing::HasSubstr("exported with a batch of 1"));
}

}  // namespace
}  // namespace meshwright
