#include "meshwright/gather_units.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TEST(BlockOf, IsTheNameAsFarAsItsFirstNumber) {
  EXPECT_EQ(block_of("transformer.h.11.attn.c_attn.weight"), "transformer.h.11");
  EXPECT_EQ(block_of("layer3.0.conv1.weight"), "layer3.0");
  EXPECT_EQ(block_of("wte.weight"), "");
  EXPECT_EQ(block_of("0.weight"), "");  // of a Sequential, whose members are as unlike as can be
}

TEST(BlockOf, IsALayerThatIsNumberedInItsName) {
  EXPECT_EQ(block_of("encoder.layers.encoder_layer_11.mlp.0.weight"), "encoder.layers.encoder_layer_11");
  EXPECT_EQ(block_of("encoder.layers.encoder_layer_3"), "encoder.layers.encoder_layer_3");
  EXPECT_EQ(block_of("block_2.conv.weight"), "block_2");
  EXPECT_EQ(block_of("layer_1.0.conv.weight"), "layer_1.0");  // of a stage
  for (const char* name : {"mlp.linear_1.weight", "dropout_2", "encoder_1.norm.weight", "encoder.layer_norm_1.weight", "layer_a.weight"}) EXPECT_EQ(block_of(name), "") << name;
  EXPECT_EQ(block_of("encoder_1.layers.0.linear_1.weight"), "encoder_1.layers.0");
}

TEST(GatherUnits, AreRunsOfABlockCutAtABucket) {
  const std::vector<NamedBytes> parameters = {{"wte", 5}, {"wpe", 5}, {"h.0.a", 6}, {"h.0.b", 6}, {"h.0.c", 4}, {"h.1.a", 20}, {"h.1.b", 1}, {"head", 1}};
  EXPECT_EQ(gather_units(parameters, 10), (std::vector<std::uint32_t>{0, 0, 1, 2, 2, 3, 4, 5}));
  EXPECT_EQ(gather_units(parameters, 100), (std::vector<std::uint32_t>{0, 0, 1, 1, 1, 2, 2, 3}));
  EXPECT_EQ(gather_units({}, 10), (std::vector<std::uint32_t>{}));
}

}  // namespace
}  // namespace meshwright
