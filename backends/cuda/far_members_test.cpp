// Recording drivers of several processes, each a thread here, with letters in memory.
#include "far_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "devices.h"
#include "recording_driver.h"

namespace meshwright::cuda {
namespace {

using testing::HasSubstr;

struct Letters {
  std::mutex mutex;
  std::map<std::tuple<int, std::uint64_t, int>, std::deque<std::string>> of;  // by receiver, channel and sender
};

class MemoryMail final : public Mail {
 public:
  MemoryMail(Letters& letters, int rank) : letters_(letters), rank_(rank) {}
  [[nodiscard]] int own_rank() const override { return rank_; }
  void post(int to, std::uint64_t channel, std::string bytes) override {
    const std::lock_guard lock(letters_.mutex);
    letters_.of[{to, channel, rank_}].push_back(std::move(bytes));
  }
  std::optional<std::string> take(int from, std::uint64_t channel) override {
    const std::lock_guard lock(letters_.mutex);
    std::deque<std::string>& waiting = letters_.of[{rank_, channel, from}];
    if (waiting.empty()) return std::nullopt;
    std::string bytes = waiting.front();
    waiting.pop_front();
    return bytes;
  }
  std::optional<Letter> take(std::uint64_t channel) override {
    for (int from = 0; from < 8; ++from) {
      if (std::optional<std::string> bytes = take(from, channel)) return Letter{from, std::move(*bytes)};
    }
    return std::nullopt;
  }

 private:
  Letters& letters_;
  const int rank_;
};

// One device, with a stream and memory of its own.
struct Process {
  Process(Letters& letters, int rank) : mail(letters, rank) {
    RecordingOptions options;
    options.devices = 1;
    options.seed = static_cast<std::uint64_t>(rank);
    options.mail = &mail;
    driver = make_recording_driver(options);
    EXPECT_EQ(driver->set_device(0), 0);
    EXPECT_EQ(driver->stream_create(stream), 0);
    EXPECT_EQ(driver->allocate(memory, 256), 0);
    for (int i = 0; i < 64; ++i) at(i) = static_cast<float>(100 * rank + i);
  }
  float& at(int i) { return reinterpret_cast<float*>(memory)[i]; }
  Code finish() {
    Code code = kNotReady;
    while (code == kNotReady) code = driver->stream_query(stream);
    return code;
  }

  MemoryMail mail;
  std::unique_ptr<Driver> driver;
  Stream stream;
  std::byte* memory = nullptr;
  Communicator communicator;
};

TEST(FarMembers, MoveWhatRanksOfOneProcessMove) {
  Letters letters;
  constexpr int kRanks = 3;
  const UniqueId id = make_far_id(MemoryMail(letters, 1), 4);  // another one than the first makes it
  std::vector<std::thread> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.emplace_back([&, rank] {
      Process process(letters, rank);
      Driver& driver = *process.driver;
      ASSERT_EQ(driver.init_communicator(process.communicator, kRanks, id, rank), 0);
      float* const values = &process.at(0);
      const auto sum = [](int i) { return static_cast<float>(300 + 3 * i); };
      ASSERT_EQ(driver.all_reduce(values, values + 8, 2, DType::float32, false, process.communicator, process.stream),
                0);
      ASSERT_EQ(driver.all_gather(values, values + 16, 2, DType::float32, process.communicator, process.stream), 0);
      ASSERT_EQ(
          driver.reduce_scatter(values, values + 24, 2, DType::float32, false, process.communicator, process.stream),
          0);
      ASSERT_EQ(driver.group_start(), 0);
      const int next = (rank + 1) % kRanks, before = (rank + 2) % kRanks;
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(driver.send(values + i, 4, next, process.communicator, process.stream), 0);
        ASSERT_EQ(driver.receive(values + 32 + i, 4, before, process.communicator, process.stream), 0);
      }
      ASSERT_EQ(driver.group_end(), 0);
      EXPECT_EQ(process.finish(), 0);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(process.at(8 + i), sum(i));
        EXPECT_EQ(process.at(24 + i), sum(2 * rank + i));
        EXPECT_EQ(process.at(32 + i), static_cast<float>(100 * before + i));
        for (int of = 0; of < kRanks; ++of) EXPECT_EQ(process.at(16 + 2 * of + i), static_cast<float>(100 * of + i));
      }
      const Status proof = driver.check_device(0);
      EXPECT_TRUE(proof) << proof.error().message;
    });
  }
  for (std::thread& process : processes) process.join();
}

// Letters that no driver wrote.
TEST(FarMembers, RefuseWhatIsNoPart) {
  Letters letters;
  MemoryMail other(letters, 1);
  const std::uint64_t channel = 2;
  const UniqueId id = make_far_id(MemoryMail(letters, 0), channel);
  for (const std::string& junk : {std::string("?"), std::string(4, '\x7f'), std::string("\0\0\0\0", 4)}) {
    Process process(letters, 0);
    other.post(0, channel, junk);
    EXPECT_EQ(process.driver->init_communicator(process.communicator, 2, id, 0), 4);
  }
  for (const std::string& junk : {std::string(), std::string("?"), std::string(100, '\0')}) {
    letters.of.clear();
    Process process(letters, 0);
    other.post(0, channel, std::string("\1\0\0\0", 4));
    ASSERT_EQ(process.driver->init_communicator(process.communicator, 2, id, 0), 0);
    other.post(0, channel, junk);
    float* const values = &process.at(0);
    ASSERT_EQ(
        process.driver->all_reduce(values, values, 2, DType::float32, false, process.communicator, process.stream), 0);
    EXPECT_EQ(process.finish(), 719);
  }
}

TEST(Devices, AreThoseOfLocalRanks) {
  Watchdog watchdog(std::chrono::seconds(0), {});
  RecordingOptions options;
  options.devices = 2;
  const std::unique_ptr<Driver> driver = make_recording_driver(options);
  {
    Devices devices(*driver, watchdog);
    ASSERT_TRUE(devices.open({{9, 1, "rank 9"}}));
    EXPECT_EQ(devices.seat(9).device, 1);
  }
  Devices devices(*driver, watchdog);
  const Status opened = devices.open({{9, 2, "rank 9"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("no device: rank 9 is to have GPU 2 of its machine, by its local rank, "
                                                "and this process sees 2"));
}

// Of another process, which gives what it likes.
TEST(Devices, RefuseGroupsAndIdsThatAreNone) {
  Watchdog watchdog(std::chrono::seconds(0), {});
  RecordingOptions options;
  options.devices = 1;
  const std::unique_ptr<Driver> driver = make_recording_driver(options);
  Devices devices(*driver, watchdog);
  ASSERT_TRUE(devices.open({{0, 0, "rank 0"}}));
  const auto numbers = [](const std::vector<std::int64_t>& all) {
    return std::string(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(std::int64_t));
  };
  const std::int64_t most = std::int64_t{1} << 62;
  for (const std::string& groups :
       {std::string("?"), numbers({-1, 1, 0}), numbers({0, 1, 2}), numbers({0, 0}), numbers({0, most, 0}),
        numbers({0, 2, 1, 0}), numbers({0, 2, 1, 1}), numbers({0, 2, -1, 1}), numbers({0}), numbers({0, 3, 0, 1})}) {
    const Status made = devices.make_communicators({}, {0, 1}, [&](const std::string& name, const std::string&) {
      return std::vector<std::string>{name == "groups" ? groups : ""};
    });
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr("the groups that another process gave are none"));
  }
  const auto without_ids = [&](const std::string& name, const std::string& own) {
    return std::vector<std::string>{own, name == "groups" ? numbers({0, 2, 1, 2}) : "short", ""};
  };
  const Status made = devices.make_communicators({}, {0, 1, 2}, without_ids);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("process 1 gave fewer ids"));
}

}  // namespace
}  // namespace meshwright::cuda
