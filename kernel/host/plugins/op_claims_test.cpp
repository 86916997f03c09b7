#include "plugins/op_claims.h"

#include <gtest/gtest.h>

namespace meshwright::host {
namespace {

const std::vector<FamilyClaims> kFamilies = {
    {"matmul", {"aten.mm", "aten.linear"}}, {"mine", {"aten.mm"}}, {"norm", {"aten.layer_norm"}}};

TEST(OpClaims, TwoFamiliesForOneOpAreNamed) {
  EXPECT_EQ(settle_claims(kFamilies, {}).error().message,
            "the op families \"matmul\" and \"mine\" both serve \"aten.mm\"; choose one in the configuration: [ops] "
            "\"aten.mm\" = \"matmul\"");
}

TEST(OpClaims, TheConfigurationSettles) {
  const auto settled = settle_claims(kFamilies, {{"aten.mm", "mine"}});
  ASSERT_TRUE(settled.ok());
  EXPECT_EQ(settled->at("aten.mm"), "mine");
  EXPECT_EQ(settled->at("aten.linear"), "matmul");
  EXPECT_EQ(settled->at("aten.layer_norm"), "norm");
}

TEST(OpClaims, TheConfigurationMustMakeSense) {
  EXPECT_EQ(settle_claims(kFamilies, {{"aten.mm", "nrm"}}).error().message,
            "[ops] gives \"aten.mm\" to the op family \"nrm\", which does not exist; did you mean \"norm\"?");
  EXPECT_EQ(settle_claims(kFamilies, {{"aten.mm", "norm"}}).error().message,
            "[ops] gives \"aten.mm\" to the op family \"norm\", which does not serve it");
}

TEST(OpClaims, AFamilyMayNameAnOpTwice) {
  EXPECT_TRUE(settle_claims({{"norm", {"aten.layer_norm", "aten.layer_norm"}}}, {}).ok());
}

}  // namespace
}  // namespace meshwright::host
