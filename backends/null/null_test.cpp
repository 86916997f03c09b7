#include "null.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

class NoOps final : public OpTable {
  const OpFamily* find(std::string_view) const override { return nullptr; }
};

TEST(Null, DoesNothing) {
  Program program;
  program.mesh.axes = {{4, 0, 0, ""}};
  program.instructions.emplace_back().action = Compute{.op = "nobody.knows"};
  const NoOps ops;
  const CostProfile profile;
  const BackendInput input{program, ops, profile, nullptr, {}, nullptr, {}};
  EXPECT_EQ(NullBackend().run(input)->ranks, 4);
  EXPECT_TRUE(NullBackend().emit(input)->empty());
}

}  // namespace
}  // namespace meshwright
