// Ranks that share a device move what NCCL would move, here on that of a recording driver.
#include "loopback_driver.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "recording_driver.h"

namespace meshwright::cuda {
namespace {

// Three ranks with memory and a stream each, and a communicator of all; each acts in a thread of its own.
class Loopback : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr std::size_t kNumbers = 12;

  struct Rank {
    float* numbers = nullptr;
    Stream stream;
    Communicator all;
  };

  void start(const RecordingOptions& options) {
    Result<std::unique_ptr<Driver>> driver = make_loopback_driver(make_recording_driver(options), kRanks);
    ASSERT_TRUE(driver);
    driver_ = std::move(*driver);
    UniqueId id{};
    ASSERT_EQ(driver_->get_unique_id(id), 0);
    for (int r = 0; r < kRanks; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      EntryPoint entry = EntryPoint::load_module;
      std::byte* memory = nullptr;
      ASSERT_EQ(driver_->set_device(r), 0);
      ASSERT_EQ(driver_->load_kernels(entry), 0);
      ASSERT_EQ(driver_->allocate(memory, kNumbers * sizeof(float)), 0);
      rank.numbers = reinterpret_cast<float*>(memory);
      std::iota(rank.numbers, rank.numbers + kNumbers, static_cast<float>(100 * r));
      ASSERT_EQ(driver_->stream_create(rank.stream), 0);
      ASSERT_EQ(driver_->init_communicator(rank.all, kRanks, id, r), 0);
    }
  }

  // Codes that the ranks get, once what they asked for is done.
  std::array<Code, kRanks> act(const std::function<Code(int, Rank&)>& what) {
    std::array<Code, kRanks> codes{};
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        Rank& rank = ranks_[static_cast<std::size_t>(r)];
        Code& code = codes[static_cast<std::size_t>(r)];
        code = driver_->set_device(r);
        if (code == 0) code = what(r, rank);
        while (code == 0 && driver_->stream_query(rank.stream) == kNotReady && !stops_) std::this_thread::yield();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return codes;
  }

  std::unique_ptr<Driver> driver_;
  std::array<Rank, kRanks> ranks_;
  std::atomic<bool> stops_{false};
};

constexpr std::array<Code, 3> kDone{0, 0, 0};

TEST_F(Loopback, SumsInPlace) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    start({.devices = 1, .seed = seed});
    EXPECT_EQ(act([&](int, Rank& rank) {
                return driver_->all_reduce(rank.numbers, rank.numbers, kNumbers, DType::float32, false, rank.all,
                                           rank.stream);
              }),
              kDone);
    for (const Rank& rank : ranks_) EXPECT_EQ(rank.numbers[5], 5 + 105 + 205);
    EXPECT_TRUE(driver_->check_device(0));
  }
}

TEST_F(Loopback, ScattersAndGathersInPlace) {
  constexpr std::size_t kPart = kNumbers / kRanks;
  start({.devices = 1});
  EXPECT_EQ(act([&](int r, Rank& rank) {
              return driver_->reduce_scatter(rank.numbers, rank.numbers + static_cast<std::size_t>(r) * kPart, kPart,
                                             DType::float32, true, rank.all, rank.stream);
            }),
            kDone);
  EXPECT_EQ(ranks_[0].numbers[1], 201);
  EXPECT_EQ(ranks_[2].numbers[9], 209);
  EXPECT_EQ(ranks_[1].numbers[9], 109);  // which is not its part
  EXPECT_EQ(act([&](int r, Rank& rank) {
              return driver_->all_gather(rank.numbers + static_cast<std::size_t>(r) * kPart, rank.numbers, kPart,
                                         DType::float32, rank.all, rank.stream);
            }),
            kDone);
  for (const Rank& rank : ranks_) {
    for (std::size_t i = 0; i < kNumbers; ++i) EXPECT_EQ(rank.numbers[i], 200 + static_cast<float>(i));
  }
}

// Each sends half of what it has to the next one, twice, which takes it in another order than it was asked for.
TEST_F(Loopback, HandsOnInOrder) {
  start({.devices = 1, .seed = 3});
  constexpr std::size_t kBytes = 3 * sizeof(float);
  EXPECT_EQ(
      act([&](int r, Rank& rank) -> Code {
        const int next = (r + 1) % kRanks, previous = (r + kRanks - 1) % kRanks;
        for (const std::size_t from : {0U, 3U}) {
          if (const Code code = driver_->group_start()) return code;
          if (const Code code = driver_->receive(rank.numbers + 6 + from, kBytes, previous, rank.all, rank.stream))
            return code;
          if (const Code code = driver_->send(rank.numbers + from, kBytes, next, rank.all, rank.stream)) return code;
          if (const Code code = driver_->group_end()) return code;
        }
        return 0;
      }),
      kDone);
  EXPECT_EQ(ranks_[1].numbers[6], 0);
  EXPECT_EQ(ranks_[1].numbers[11], 5);
  EXPECT_EQ(ranks_[0].numbers[9], 203);
  EXPECT_TRUE(driver_->check_device(0));
}

TEST_F(Loopback, RefusesWhatDoesNotFitTogether) {
  start({.devices = 1});
  const std::array<Code, kRanks> codes = act([&](int r, Rank& rank) {
    return driver_->all_reduce(rank.numbers, rank.numbers, r == 1 ? 4 : 5, DType::float32, false, rank.all,
                               rank.stream);
  });
  for (const Code code : codes) EXPECT_NE(code, 0);
  EXPECT_NE(driver_->error_text(EntryPoint::all_reduce, codes[0]).find("does not fit together"), std::string::npos);
  EXPECT_NE(driver_->all_reduce(nullptr, nullptr, 1, DType::float16, false, ranks_[0].all, ranks_[0].stream), 0);
  EXPECT_NE(driver_->set_device(kRanks), 0);
  const auto too_many = make_loopback_driver(make_recording_driver({.devices = 1}), 65);
  ASSERT_FALSE(too_many);
  EXPECT_NE(too_many.error().message.find("at most 64 ranks share a GPU"), std::string::npos);
}

// As of NCCL's: what is on the stream never gets done, and no call says so.
TEST_F(Loopback, AnAbortedGroupKeepsNobodyWaitingInACall) {
  start({.devices = 1});
  const std::array<Code, kRanks> codes = act([&](int r, Rank& rank) {
    if (r == 2) {
      const Code code = driver_->abort_communicator(rank.all);
      stops_ = true;
      return code;
    }
    return driver_->all_reduce(rank.numbers, rank.numbers, 4, DType::float32, false, rank.all, rank.stream);
  });
  EXPECT_EQ(codes, kDone);
  ASSERT_EQ(driver_->set_device(0), 0);
  EXPECT_EQ(driver_->stream_query(ranks_[0].stream), kNotReady);
}

}  // namespace
}  // namespace meshwright::cuda
