#include "known_prices.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

// Prices that say how often somebody asked.
class Counting final : public ConversionSearch {
 public:
  mutable Ticks asked = 0;

 private:
  // There is none between unlike layouts.
  Result<ConversionPath> do_find(const ConversionProblem& /*problem*/, const Layout& from, const Layout& to) const override {
    ++asked;
    return from == to ? Result<ConversionPath>(ConversionPath()) : infeasible("none");
  }
  Result<std::vector<PathPrice>> do_price_all(const ConversionProblem& /*problem*/, std::span<const Layout> layouts) const override {
    ++asked;
    return std::vector<PathPrice>(layouts.size() * layouts.size(), {asked, 0});
  }
};

class KnownPricesTest : public testing::Test {
 protected:
  Ticks price(const AtomShape& shape, std::int64_t element_bytes, bool packed, const std::vector<Layout>& layouts) {
    return known_.price_all({mesh_, shape, profile_, element_bytes, packed}, layouts).value().front().ticks;
  }

  Mesh mesh_;
  CostProfile profile_;
  Counting counting_;
  KnownPrices known_{counting_};
  AtomShape shape_{{8, 4}, {1, 1}, {false, true}};
  std::vector<Layout> layouts_ = std::vector<Layout>(2);
};

TEST_F(KnownPricesTest, AreAskedForOnce) {
  EXPECT_EQ(price(shape_, 4, false, layouts_), 1);
  EXPECT_EQ(price(shape_, 4, false, layouts_), 1);
  AtomShape other = shape_;
  other.atoms_of_dimension = {2};  // dimensions cost nothing
  EXPECT_EQ(price(other, 4, false, layouts_), 1);
  EXPECT_EQ(counting_.asked, 1);
}

TEST_F(KnownPricesTest, AreThoseOfWhatCostsTheSame) {
  EXPECT_EQ(price(shape_, 4, false, layouts_), 1);
  EXPECT_EQ(price(shape_, 2, false, layouts_), 2);
  EXPECT_EQ(price(shape_, 4, true, layouts_), 3);
  EXPECT_EQ(price({{8, 4}, {1, 1}, {true, true}}, 4, false, layouts_), 4);
  EXPECT_EQ(price({{8, 2}, {1, 1}, {false, true}}, 4, false, layouts_), 5);
  EXPECT_EQ(price(shape_, 4, false, {Layout()}), 6);
}

TEST_F(KnownPricesTest, PathsAreLookedForOnceWhereThereAre) {
  const Layout one(1);
  Layout other = one;
  other.place(0, Placement::shard(0));
  mesh_.axes.resize(1);
  mesh_.axes[0].size = 2;
  const ConversionProblem problem{mesh_, shape_, profile_};
  EXPECT_TRUE(known_.find(problem, one, one));
  EXPECT_TRUE(known_.find(problem, one, one));
  EXPECT_EQ(counting_.asked, 1);
  EXPECT_FALSE(known_.find(problem, one, other));
  EXPECT_EQ(counting_.asked, 2);
}

TEST_F(KnownPricesTest, OfWhatIsPackedAreThoseOfABucket) {
  EXPECT_EQ(price(shape_, 4, true, layouts_), 1);
  profile_.parameter_bytes = profile_.bucket_bytes + 1;  // the bucket is as large as before
  EXPECT_EQ(price(shape_, 4, true, layouts_), 1);
  profile_.parameter_bytes = 100;
  EXPECT_EQ(price(shape_, 4, true, layouts_), 2);
  EXPECT_EQ(price(shape_, 4, false, layouts_), 3);
  profile_.parameter_bytes = 200;
  EXPECT_EQ(price(shape_, 4, false, layouts_), 3);  // what is not packed does not ask
}

}  // namespace
}  // namespace meshwright
