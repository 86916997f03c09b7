#include "meeting.h"

#include <gtest/gtest.h>

#include <thread>

namespace meshwright {
namespace {

std::string number(std::size_t index) { return "instruction " + std::to_string(index); }

// Runs one function for each rank, and lets each leave at the end.
template <class... Body>
std::optional<Error> run(Meeting& meeting, Body... bodies) {
  std::vector<std::thread> threads;
  std::int64_t next = 0;
  const auto start = [&](auto body) {
    threads.emplace_back([&meeting, body, rank = next++] {
      body(rank);
      meeting.leave(rank);
    });
  };
  (start(bodies), ...);
  for (std::thread& thread : threads) thread.join();
  return meeting.failure();
}

TEST(Meeting, LetsAGroupPassTogether) {
  Meeting meeting(2, number);
  int written = 0, read = 0;
  const auto failure = run(
      meeting,
      [&](std::int64_t rank) {
        written = 7;
        EXPECT_TRUE(meeting.wait(rank, {0, 0, {0, 1}}));
        EXPECT_TRUE(meeting.wait(rank, {0, 1, {0, 1}}));
      },
      [&](std::int64_t rank) {
        EXPECT_TRUE(meeting.wait(rank, {0, 0, {0, 1}}));
        read = written;
        EXPECT_TRUE(meeting.wait(rank, {0, 1, {0, 1}}));
      });
  EXPECT_FALSE(failure);
  EXPECT_EQ(read, 7);
}

TEST(Meeting, NamesWhoHasLeft) {
  Meeting meeting(3, number);
  const auto waits = [&](std::int64_t rank) { EXPECT_FALSE(meeting.wait(rank, {4, 0, {0, 1, 2}})); };
  const auto failure = run(
      meeting, waits, [](std::int64_t) {}, waits);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message, "instruction 4: not all ranks of the group entered it: came 0, 2; rank 1 has left");
}

TEST(Meeting, NamesWhoWaitsElsewhere) {
  Meeting meeting(2, number);
  const auto failure = run(
      meeting,
      [&](std::int64_t rank) {
        EXPECT_FALSE(meeting.wait(rank, {4, 0, {0, 1}}));
      },
      [&](std::int64_t rank) {
        EXPECT_FALSE(meeting.wait(rank, {6, 0, {0, 1}}));
      });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message,
            "instruction 4: not all ranks of the group entered it: came 0; rank 1 waits at instruction 6");
}

TEST(Meeting, TheFirstFailureInProgramOrderStops) {
  Meeting meeting(4, number);
  const auto failure = run(
      meeting,
      [&](std::int64_t rank) {
        EXPECT_FALSE(meeting.wait(rank, {9, 0, {0, 1, 2, 3}}));
      },
      [&](std::int64_t rank) { meeting.fail(rank, 5, bad_input("late")); },
      [&](std::int64_t rank) { meeting.fail(rank, 2, bad_input("second")); },
      [&](std::int64_t rank) {
        meeting.fail(rank, 2, bad_input("third"));
        EXPECT_TRUE(meeting.goes_on(2));
        EXPECT_FALSE(meeting.goes_on(3));
      });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message, "second");
}

}  // namespace
}  // namespace meshwright
