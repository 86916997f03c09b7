// Worlds of threads, each with a connection of its own. What ends a process is seen in a child.
#include "tcp_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio.hpp>

#include "meshwright/log.h"

namespace meshwright {
namespace {

using boost::asio::ip::tcp;
using testing::HasSubstr;

std::uint16_t free_port() {
  boost::asio::io_context io;
  return tcp::acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
}

Launched launched(int rank, int size, std::uint16_t port) { return {"torchrun", rank, size, rank, "127.0.0.1", port}; }

using Work = std::function<void(TcpWorld&)>;

// Each rank in a thread.
void in_world(int size, std::uint16_t port, const Work& work) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([=] {
      const auto world = TcpWorld::join(launched(rank, size, port), {std::chrono::seconds(20), "test"});
      ASSERT_TRUE(world) << world.error().message;
      work(**world);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(TcpWorld, TellsAllWhatEachHas) {
  in_world(4, free_port(), [](TcpWorld& world) {
    const int rank = world.rank();
    EXPECT_EQ(world.size(), 4);
    EXPECT_EQ(world.largest(rank), 3);
    EXPECT_EQ(world.exchange("names", std::to_string(rank)), (std::vector<std::string>{"0", "1", "2", "3"}));
    const Status agreed = world.agree(rank < 2 ? Status(Done{}) : Status(infeasible("of " + std::to_string(rank))));
    ASSERT_FALSE(agreed);
    EXPECT_EQ(agreed.error().message, "of 2");
    EXPECT_EQ(agreed.error().code, ErrorCode::infeasible);
    EXPECT_TRUE(world.agree(Done{}));
  });
}

// In several exchanges.
TEST(TcpWorld, SharesLargeParts) {
  in_world(2, free_port(), [](TcpWorld& world) {
    constexpr std::size_t kBytes = (std::size_t{17} << 20) + 3;
    std::vector<std::vector<std::byte>> parts(2, std::vector<std::byte>(kBytes));
    const auto rank = static_cast<std::size_t>(world.rank());
    for (std::size_t i = 0; i < kBytes; ++i) parts[rank][i] = static_cast<std::byte>(i * (rank + 3) >> 7);
    const std::vector<std::span<std::byte>> spans{parts[0], parts[1]};
    world.share(spans, 0);
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t i = 0; i < kBytes; i += 997) ASSERT_EQ(parts[r][i], static_cast<std::byte>(i * (r + 3) >> 7));
    }
    std::vector<std::byte> own = parts[rank];
    world.broadcast(own, 1);
    EXPECT_EQ(own, parts[1]);
  });
}

TEST(TcpWorld, CarriesLettersInOrder) {
  in_world(3, free_port(), [](TcpWorld& world) {
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    for (int i = 0; i < 50; ++i) {
      world.post(next, 7, std::to_string(i));
      world.post(next, 8, "other " + std::to_string(i));
    }
    for (int i = 0; i < 50; ++i) {
      std::optional<std::string> got;
      while (!got) got = world.take(before, 7);
      EXPECT_EQ(*got, std::to_string(i));
    }
    std::optional<Mail::Letter> any;
    while (!any) any = world.take(8);
    EXPECT_EQ(any->from, before);
    EXPECT_EQ(any->bytes, "other 0");
    EXPECT_FALSE(world.take(next, 7));
  });
}

// Of a world of another size, of a rank that is there already, and of what is no rank at all.
TEST(TcpWorld, RefusesStrangers) {
  const std::uint16_t port = free_port();
  std::thread rank0([&] {
    const auto world = TcpWorld::join(launched(0, 2, port), {std::chrono::seconds(20), "test"});
    ASSERT_TRUE(world);
    EXPECT_EQ((*world)->largest(2), 2);
  });
  const auto other = TcpWorld::join(launched(1, 3, port), {std::chrono::seconds(20), "test"});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("it belongs to 3 ranks, and those that meet at 127.0.0.1:"));
  boost::asio::io_context io;
  for (const std::string& junk : {std::string("GET / HTTP/1.1\r\nHost: meshwright\r\n\r\n"), std::string(5000, '\0')}) {
    tcp::socket socket(io);
    socket.connect({boost::asio::ip::address_v4::loopback(), port});
    boost::system::error_code error;
    boost::asio::write(socket, boost::asio::buffer(junk), error);
    std::array<char, 64> answer{};
    while (!error) socket.read_some(boost::asio::buffer(answer), error);  // until it is closed
  }
  // A header of ours, with more bytes than a stranger may say.
  {
    tcp::socket socket(io);
    socket.connect({boost::asio::ip::address_v4::loopback(), port});
    std::array<char, 32> header{};
    std::memcpy(header.data(), "MSW1", 4);
    const std::uint64_t bytes = std::uint64_t{1} << 40;
    std::memcpy(header.data() + 24, &bytes, sizeof bytes);
    boost::system::error_code error;
    boost::asio::write(socket, boost::asio::buffer(header), error);
    while (!error) socket.read_some(boost::asio::buffer(header), error);
  }
  auto world = TcpWorld::join(launched(1, 2, port), {std::chrono::seconds(20), "test"});
  ASSERT_TRUE(world) << world.error().message;
  const auto twin = TcpWorld::join(launched(1, 2, port), {std::chrono::seconds(20), "test"});
  ASSERT_FALSE(twin);
  EXPECT_THAT(twin.error().message, HasSubstr("a rank of this number is there already, rank 1 (process "));
  EXPECT_EQ((*world)->largest(2), 2);
  // Both leave at once.
  std::thread leaves([left = std::move(*world)]() mutable { left.reset(); });
  rank0.join();
  leaves.join();
}

TEST(TcpWorld, SaysThatAPortIsInUse) {
  boost::asio::io_context io;
  tcp::acceptor taken(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  const auto world = TcpWorld::join(launched(0, 2, taken.local_endpoint().port()), {std::chrono::seconds(1), "test"});
  ASSERT_FALSE(world);
  EXPECT_THAT(world.error().message, HasSubstr("rank 0 can't listen at port "));
  EXPECT_THAT(world.error().message, HasSubstr("set MESHWRIGHT_PORT"));
}

TEST(TcpWorld, SaysThatRank0DidNotCome) {
  const auto world = TcpWorld::join(launched(1, 2, free_port()), {std::chrono::seconds(1), "test"});
  ASSERT_FALSE(world);
  EXPECT_THAT(world.error().message, HasSubstr("rank 1: rank 0 did not come to 127.0.0.1:"));
  EXPECT_THAT(world.error().message, HasSubstr("within 1 s"));
}

void log_to_stderr(LogLevel, std::string_view source, std::string_view message) {
  std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(source.size()), source.data(), static_cast<int>(message.size()),
               message.data());
}

class TcpWorldDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    set_log_sink(log_to_stderr);
  }
};

TEST_F(TcpWorldDeathTest, NamesWhoIsMissing) {
  EXPECT_EXIT((void)TcpWorld::join(launched(0, 5, free_port()), {std::chrono::seconds(1), "test"}),
              testing::ExitedWithCode(4), "test: ranks 1, 2, 3 and 4 of 5 did not come to 127.0.0.1:[0-9]+ within 1 s");
}

TEST_F(TcpWorldDeathTest, EndsAllWithTheErrorOfOne) {
  EXPECT_EXIT(in_world(3, free_port(),
                       [](TcpWorld& world) {
                         if (world.rank() == 1) world.end_all(infeasible("rank 1 can't"));
                         world.largest(1);
                       }),
              testing::ExitedWithCode(3), "test: rank 1 can't; it ends all 3 processes");
}

// One is elsewhere than the others: the error that it has says why.
TEST_F(TcpWorldDeathTest, EndsAllWhoAreNotAtTheSamePlace) {
  EXPECT_EXIT(in_world(2, free_port(),
                       [](TcpWorld& world) {
                         if (world.rank() == 1) (void)world.agree(bad_input("rank 1 came off"));
                         world.largest(1);
                       }),
              testing::ExitedWithCode(2), "test: rank 1 came off; it ends all 2 processes");
  EXPECT_EXIT(in_world(2, free_port(),
                       [](TcpWorld& world) {
                         if (world.rank() == 1) world.announce("step");
                         world.exchange(world.rank() == 1 ? "step" : "end", "");
                       }),
              testing::ExitedWithCode(1), "is at 'end', and rank 1 \\(process .*\\) at 'step'");
}

}  // namespace
}  // namespace meshwright
