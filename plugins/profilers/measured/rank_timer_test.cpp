#include "rank_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace meshwright {
namespace {

TEST(SecondsOf, RunsEachRanksWorkOnAThreadOfItsOwn) {
  std::mutex mutex;
  std::set<int> ranks;
  std::set<std::thread::id> threads;
  std::atomic<int> elsewhere = 0, repetitions = 0;
  const RankWorkMaker make = [&](int rank) {
    const std::scoped_lock lock(mutex);
    EXPECT_TRUE(ranks.insert(rank).second) << rank;
    threads.insert(std::this_thread::get_id());
    return [&, maker = std::this_thread::get_id()] {
      elsewhere += std::this_thread::get_id() != maker;
      ++repetitions;
    };
  };
  seconds_of(make, 3, 1e-3);
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(threads.size(), 3);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_GE(repetitions, 3 * 5);  // to fill the caches, to plan, and three parts at least
  EXPECT_EQ(repetitions % 3, 0) << "ranks did not do the same";
}

TEST(SecondsOf, EndsWithWhatWentWrongOnOneRank) {
  const auto in_making = [](int rank) -> RankWork {
    if (rank == 1) throw std::runtime_error("no memory near rank 1");
    return [] {};
  };
  EXPECT_THROW(seconds_of(in_making, 3, 1e-3), std::runtime_error);
  const auto in_work = [](int rank) -> RankWork {
    return [rank, done = 0]() mutable {
      if (rank == 2 && ++done == 4) throw std::domain_error("rank 2 stops");
    };
  };
  EXPECT_THROW(seconds_of(in_work, 3, 1e-3), std::domain_error);
  EXPECT_THROW(seconds_of(in_work, 3, 1e-3), std::domain_error);
}

}  // namespace
}  // namespace meshwright
