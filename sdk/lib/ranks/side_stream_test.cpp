#include "side_stream.h"

#include <gtest/gtest.h>

#include "meshwright/tensor.h"

namespace meshwright {
namespace {

// Says what it does, and is done when it has been called so often.
SideStream::Begin task(std::string& said, char name, int calls) {
  return [&said, name, calls]() -> Result<SideStream::Task> {
    said += name;
    return SideStream::Task([&said, name, left = calls]() mutable -> Result<bool> {
      if (--left > 0) return false;
      said += static_cast<char>(name - 'a' + 'A');
      return true;
    });
  };
}

TEST(SideStream, DoesOneAfterTheOther) {
  SideStream side;
  std::string said;
  side.add("a", {}, {}, task(said, 'a', 2));
  side.add("b", {}, {}, task(said, 'b', 1));
  EXPECT_EQ(said, "");
  ASSERT_TRUE(side.advance());
  EXPECT_EQ(said, "a");
  EXPECT_FALSE(side.is_empty());
  ASSERT_TRUE(side.advance());
  EXPECT_EQ(said, "aAbB");
  EXPECT_TRUE(side.is_empty());
}

TEST(SideStream, KnowsWhatIsStillReadAndWritten) {
  SideStream side;
  std::string said;
  const Tensor x, y, z;
  side.add("a", {&x}, {&y}, task(said, 'a', 1));
  side.add("b", {&y}, {&z}, task(said, 'b', 2));
  EXPECT_TRUE(side.uses(&x) && side.uses(&y) && side.uses(&z));
  EXPECT_FALSE(side.writes(&x));
  EXPECT_TRUE(side.writes(&y) && side.writes(&z));
  ASSERT_TRUE(side.advance());
  EXPECT_FALSE(side.uses(&x));
  EXPECT_TRUE(side.uses(&y) && side.writes(&z));
  EXPECT_FALSE(side.writes(&y));
  ASSERT_TRUE(side.advance());
  EXPECT_FALSE(side.uses(&y) || side.uses(&z));
}

TEST(SideStream, KnowsWhetherOthersWait) {
  SideStream side;
  std::string said;
  side.add("a", {}, {}, task(said, 'a', 1), true);
  side.add("b", {}, {}, task(said, 'b', 2));
  EXPECT_TRUE(side.has_for_others());
  ASSERT_TRUE(side.advance());
  EXPECT_FALSE(side.has_for_others());
  EXPECT_FALSE(side.is_empty());
}

TEST(SideStream, NamesWhatFails) {
  for (const bool at_begin : {true, false}) {
    SideStream side;
    side.add("the sum", {}, {}, [&]() -> Result<SideStream::Task> {
      if (at_begin) return bad_input("no memory");
      return SideStream::Task([]() -> Result<bool> { return bad_input("no memory"); });
    });
    EXPECT_EQ(side.advance().error().message, "the sum: no memory");
  }
}

}  // namespace
}  // namespace meshwright
