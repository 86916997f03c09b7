#include "trace.h"

#include <gtest/gtest.h>

namespace meshwright::cuda {
namespace {

std::byte memory[64];

Range at(std::size_t first, std::size_t bytes) { return {memory + first, bytes}; }

TraceEntry writes(std::size_t stream, Range range) { return {TraceKind::work, stream, 0, "write", {}, {range}}; }
TraceEntry reads(std::size_t stream, Range range) { return {TraceKind::work, stream, 0, "read", {range}, {}}; }
TraceEntry record(std::size_t stream, std::size_t event) { return {TraceKind::record, stream, event, "", {}, {}}; }
TraceEntry wait(std::size_t stream, std::size_t event) { return {TraceKind::wait, stream, event, "", {}, {}}; }
TraceEntry joined(std::size_t stream) { return {TraceKind::joined, stream, 0, "", {}, {}}; }

TEST(Trace, FindsARaceBetweenStreams) {
  const Status status = check_races({writes(0, at(0, 8)), reads(1, at(4, 8))});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "'write' on stream 0 and 'read' on stream 1 touch the same memory, and neither waits for the other");
  EXPECT_FALSE(check_races({reads(0, at(0, 8)), writes(1, at(7, 1))}));
  EXPECT_FALSE(check_races({writes(0, at(0, 8)), writes(1, at(0, 8))}));
}

TEST(Trace, LetsReadersAndNeighboursBe) {
  EXPECT_TRUE(check_races({reads(0, at(0, 8)), reads(1, at(0, 8))}));
  EXPECT_TRUE(check_races({writes(0, at(0, 8)), writes(1, at(8, 8))}));
  EXPECT_TRUE(check_races({writes(0, at(0, 8)), writes(1, at(4, 0))}));
}

TEST(Trace, KnowsTheOrderOfAStreamAndOfEvents) {
  EXPECT_TRUE(check_races({writes(0, at(0, 8)), reads(0, at(0, 8))}));
  EXPECT_TRUE(check_races({writes(0, at(0, 8)), record(0, 3), wait(1, 3), reads(1, at(0, 8))}));
  // What came behind the record is not waited for.
  EXPECT_FALSE(check_races({record(0, 3), writes(0, at(0, 8)), wait(1, 3), reads(1, at(0, 8))}));
  // Of an event that is recorded again later, the wait is for the record before it.
  EXPECT_FALSE(check_races({record(0, 3), wait(1, 3), writes(0, at(0, 8)), record(0, 3), reads(1, at(0, 8))}));
}

TEST(Trace, FollowsEventsThroughStreams) {
  EXPECT_TRUE(
      check_races({writes(0, at(0, 8)), record(0, 0), wait(1, 0), record(1, 1), wait(2, 1), reads(2, at(0, 8))}));
  EXPECT_FALSE(check_races({writes(0, at(0, 8)), record(1, 1), wait(2, 1), reads(2, at(0, 8))}));
}

TEST(Trace, KnowsWhatTheHostWaitedFor) {
  EXPECT_TRUE(check_races({writes(0, at(0, 8)), joined(0), reads(1, at(0, 8))}));
  EXPECT_FALSE(check_races({writes(0, at(0, 8)), joined(1), reads(1, at(0, 8))}));
}

}  // namespace
}  // namespace meshwright::cuda
