#include "watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>

namespace meshwright::cuda {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, SaysAllThatIsUnderWay) {
  std::promise<Error> ended;
  Watchdog watchdog(20ms, [&](const Error& error) { ended.set_value(error); });
  std::optional<Watchdog::Watch> done;
  done.emplace(watchdog.watch([] { return std::string("rank 0 is done"); }));
  const Watchdog::Watch waits = watchdog.watch([] { return std::string("rank 1 waits"); }),
                        sends = watchdog.watch([] { return std::string("rank 2 sends"); });
  done.reset();
  const Error error = ended.get_future().get();
  EXPECT_EQ(error.code, ErrorCode::plugin_failed);
  EXPECT_THAT(error.message, testing::EndsWith("emit.cuda.hang_seconds sets: rank 1 waits; rank 2 sends"));
}

// Each thing has its own time, and what has ended in it is forgotten.
TEST(Watchdog, LetsGoWhatEnds) {
  bool has_ended = false;
  {
    Watchdog watchdog(10s, [&](const Error&) { has_ended = true; });
    for (int i = 0; i < 3; ++i) const Watchdog::Watch watch = watchdog.watch([] { return std::string("it is short"); });
    const Watchdog::Watch open = watchdog.watch([] { return std::string("it is not long yet"); });
    Watchdog::Watch moved = watchdog.watch([] { return std::string("it is elsewhere"); });
    const Watchdog::Watch elsewhere = std::move(moved);
  }
  EXPECT_FALSE(has_ended);
}

TEST(Watchdog, WatchesNothingWithoutALimit) {
  bool has_ended = false;
  {
    Watchdog watchdog(0s, [&](const Error&) { has_ended = true; });
    const Watchdog::Watch watch = watchdog.watch([] { return std::string("it is long"); });
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_FALSE(has_ended);
}

}  // namespace
}  // namespace meshwright::cuda
