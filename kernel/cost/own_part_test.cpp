#include "cost/own_part.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

// Rows t go to the experts e; the second result is the rank's own.
struct Experts {
  explicit Experts(double imbalance) {
    const TensorType rows{DType::float32, {8, 4}}, weights{DType::float32, {4, 4, 4}};
    rule = parse_rule("t h, e h i -> t h, @t i", {rows, weights}, {rows, rows}).value();
    rule.exchanges = {{.from = rule.factor("t"), .to = rule.factor("e"), .imbalance = imbalance}};
    share.shards.assign(rule.factors.size(), 1);
    share.operand_bytes = {128, 256};
    share.result_bytes = {128, 1000};
  }
  std::vector<std::int64_t> results(const char* factor, std::int64_t shards) {
    share.shards[rule.factor(factor)] = shards;
    take_own_part(rule, share);
    EXPECT_EQ(share.operand_bytes, (std::vector<std::int64_t>{128, 256}));
    return share.result_bytes;
  }
  Rule rule;
  CallShare share;
};

using Bytes = std::vector<std::int64_t>;

TEST(TakeOwnPart, IsTheBusiestRanksWhereExpertsLieApart) {
  EXPECT_EQ(Experts(1).results("e", 4), (Bytes{128, 250}));
  EXPECT_EQ(Experts(1.2).results("e", 4), (Bytes{128, 300}));
  EXPECT_EQ(Experts(8).results("e", 4), (Bytes{128, 1000})) << "one rank has all rows, and no more";
}

TEST(TakeOwnPart, IsAllWhereTheyDoNot) {
  EXPECT_EQ(Experts(1.2).results("e", 1), (Bytes{128, 1000}));
  EXPECT_EQ(Experts(1.2).results("t", 4), (Bytes{128, 1000})) << "the layout says it already";
  Experts none(1.2);
  none.rule.exchanges.clear();
  EXPECT_EQ(none.results("e", 4), (Bytes{128, 1000}));
}

}  // namespace
}  // namespace meshwright
