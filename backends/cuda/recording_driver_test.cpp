#include "recording_driver.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/pointwise.h"

namespace meshwright::cuda {
namespace {

// Two devices with memory, streams and an event each, and a communicator of both.
class Recording : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 256;

  struct Device {
    std::byte* memory = nullptr;
    Stream streams[2];
    Event event;
    Communicator both;
    [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(memory); }
  };

  void start(const RecordingOptions& options) {
    driver_ = make_recording_driver(options);
    UniqueId id{};
    ASSERT_EQ(driver_->get_unique_id(id), 0);
    for (int d = 0; d < 2; ++d) {
      Device& device = devices_[static_cast<std::size_t>(d)];
      EntryPoint entry = EntryPoint::load_module;
      ASSERT_EQ(driver_->set_device(d), 0);
      ASSERT_EQ(driver_->load_kernels(entry), 0);
      ASSERT_EQ(driver_->allocate(device.memory, kBytes), 0);
      for (Stream& stream : device.streams) ASSERT_EQ(driver_->stream_create(stream), 0);
      ASSERT_EQ(driver_->event_create(device.event), 0);
      ASSERT_EQ(driver_->init_communicator(device.both, 2, id, d), 0);
    }
  }

  // That number in the first four floats.
  void set(std::size_t d, double number) {
    ASSERT_EQ(driver_->set_device(static_cast<int>(d)), 0);
    ASSERT_EQ(driver_->launch(constant(devices_[d].floats(), number), devices_[d].streams[0]), 0);
  }

  static Launch constant(float* to, double number, std::size_t said = 4) {
    PointwiseArguments arguments;
    arguments.function = Function::constant;
    arguments.number = number;
    arguments.sizes.rank = 1;
    arguments.sizes.of[0] = 4;
    arguments.result.data = to;
    arguments.result.strides[0] = 1;
    Launch launch{KernelId::pointwise,
                  std::vector<std::byte>(sizeof arguments),
                  4,
                  {},
                  {{reinterpret_cast<std::byte*>(to), said * sizeof(float)}}};
    std::memcpy(launch.arguments.data(), &arguments, sizeof arguments);
    return launch;
  }

  // Whether all streams of both devices get done.
  bool finish() {
    for (int i = 0; i < 1000; ++i) {
      bool done = true;
      for (const Device& device : devices_) {
        for (const Stream stream : device.streams) done = driver_->stream_query(stream) == 0 && done;
      }
      if (done) return true;
    }
    return false;
  }

  // On the first device: 1 on a stream, and 2 in the same place on another one, which waits for it.
  void ask_twice() {
    const Device& device = devices_[0];
    set(0, 1);
    ASSERT_EQ(driver_->event_record(device.event, device.streams[0]), 0);
    ASSERT_EQ(driver_->stream_wait_event(device.streams[1], device.event), 0);
    ASSERT_EQ(driver_->launch(constant(device.floats(), 2), device.streams[1]), 0);
  }
  void set_twice() {
    ASSERT_NO_FATAL_FAILURE(ask_twice());
    ASSERT_TRUE(finish());
  }

  std::unique_ptr<Driver> driver_;
  std::array<Device, 2> devices_;
};

TEST_F(Recording, DoesNothingUntilSomebodyAsks) {
  start({.devices = 2});
  set(0, 3);
  EXPECT_NE(devices_[0].floats()[0], 3);
  EXPECT_TRUE(finish());
  EXPECT_EQ(devices_[0].floats()[3], 3);
}

TEST_F(Recording, WaitsForEvents) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    start({.devices = 2, .seed = seed});
    const Device& device = devices_[0];
    ASSERT_NO_FATAL_FAILURE(set_twice());
    EXPECT_EQ(device.floats()[0], 2);
    EXPECT_TRUE(driver_->check_device(0));
  }
}

// The order is drawn: without the wait both happen.
TEST_F(Recording, DrawsTheOrderOfWhatDoesNotWait) {
  bool first_won = false, second_won = false;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    start({.devices = 2, .seed = seed, .failures = {}, .omitted_wait = 1});
    const Device& device = devices_[0];
    ASSERT_NO_FATAL_FAILURE(set_twice());
    (device.floats()[0] == 1 ? first_won : second_won) = true;
    EXPECT_FALSE(driver_->check_device(0));
  }
  EXPECT_TRUE(first_won && second_won);
}

// What is captured is done when its graph is launched, as often as it is, in the order that its events give.
TEST_F(Recording, DoesWhatWasCapturedWhenItIsLaunched) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    start({.devices = 2, .seed = seed});
    const Device& device = devices_[0];
    ASSERT_EQ(driver_->begin_capture(device.streams[0]), 0);
    ASSERT_NO_FATAL_FAILURE(ask_twice());
    EXPECT_EQ(driver_->stream_query(device.streams[1]), 900);  // it is captured too
    ASSERT_EQ(driver_->event_record(device.event, device.streams[1]), 0);
    ASSERT_EQ(driver_->stream_wait_event(device.streams[0], device.event), 0);
    StepGraph graph;
    EntryPoint entry = EntryPoint::capture_end;
    ASSERT_EQ(driver_->end_capture(device.streams[0], graph, entry), 0);
    ASSERT_TRUE(finish());
    EXPECT_NE(device.floats()[0], 2);
    for (int launch = 0; launch < 2; ++launch) {
      ASSERT_EQ(driver_->launch(constant(device.floats(), 7), device.streams[0]), 0);
      ASSERT_EQ(driver_->launch_graph(graph, device.streams[0]), 0);
      ASSERT_TRUE(finish());
      EXPECT_EQ(device.floats()[0], 2);
    }
    EXPECT_TRUE(driver_->check_device(0));
    EXPECT_EQ(driver_->destroy_graph(graph), 0);
  }
}

TEST_F(Recording, RefusesCapturesAsCudaDoes) {
  start({.devices = 2});
  const Device& device = devices_[0];
  StepGraph graph;
  EntryPoint entry = EntryPoint::capture_end;
  ASSERT_EQ(driver_->event_record(device.event, device.streams[1]), 0);
  ASSERT_EQ(driver_->begin_capture(device.streams[0]), 0);
  EXPECT_EQ(driver_->stream_wait_event(device.streams[0], device.event), 905);  // of no captured stream
  ASSERT_NO_FATAL_FAILURE(ask_twice());                                         // the other stream does not come back
  EXPECT_EQ(driver_->end_capture(device.streams[1], graph, entry), 903);
  EXPECT_EQ(driver_->end_capture(device.streams[0], graph, entry), 904);
  EXPECT_EQ(entry, EntryPoint::capture_end);
}

TEST_F(Recording, CollectsFromAllRanksInTheirOrder) {
  start({.devices = 2});
  for (std::size_t d = 0; d < 2; ++d) {
    set(d, d == 0 ? 1 : 10);
    float* memory = devices_[d].floats();
    ASSERT_EQ(
        driver_->all_reduce(memory, memory + 8, 4, DType::float32, false, devices_[d].both, devices_[d].streams[0]), 0);
    ASSERT_EQ(driver_->all_gather(memory, memory + 16, 4, DType::float32, devices_[d].both, devices_[d].streams[0]), 0);
    ASSERT_EQ(
        driver_->reduce_scatter(memory, memory + 32, 2, DType::float32, true, devices_[d].both, devices_[d].streams[0]),
        0);
    EXPECT_EQ(finish(), d == 1);  // the first rank alone does not get done
  }
  for (const Device& device : devices_) {
    EXPECT_EQ(device.floats()[11], 11);
    EXPECT_EQ(device.floats()[19], 1);
    EXPECT_EQ(device.floats()[20], 10);
    EXPECT_EQ(device.floats()[33], 10);
  }
}

TEST_F(Recording, HandsOverWhatIsSent) {
  start({.devices = 2});
  for (std::size_t d = 0; d < 2; ++d) {
    set(d, d == 0 ? 1 : 10);
    Device& device = devices_[d];
    const int peer = d == 0 ? 1 : 0;
    EXPECT_NE(driver_->send(device.memory, 16, peer, device.both, device.streams[0]), 0) << "outside of a group";
    ASSERT_EQ(driver_->group_start(), 0);
    ASSERT_EQ(driver_->send(device.memory, 16, peer, device.both, device.streams[0]), 0);
    ASSERT_EQ(driver_->receive(device.memory + 64, 16, peer, device.both, device.streams[0]), 0);
    ASSERT_EQ(driver_->group_end(), 0);
  }
  ASSERT_TRUE(finish());
  EXPECT_EQ(devices_[0].floats()[16], 10);
  EXPECT_EQ(devices_[1].floats()[16], 1);
}

// As on a GPU, where it ends in an error or in wrong numbers.
TEST_F(Recording, FindsRanksThatAskForDifferentThings) {
  for (const bool collective : {true, false}) {
    start({.devices = 2});
    for (std::size_t d = 0; d < 2; ++d) {
      Device& device = devices_[d];
      const int peer = d == 0 ? 1 : 0;
      ASSERT_EQ(driver_->set_device(static_cast<int>(d)), 0);
      if (collective) {
        ASSERT_EQ(driver_->all_reduce(device.memory, device.memory + 64, 4 + d, DType::float32, false, device.both,
                                      device.streams[0]),
                  0);
        continue;
      }
      ASSERT_EQ(driver_->group_start(), 0);
      const Code code = d == 0 ? driver_->send(device.memory, 16, peer, device.both, device.streams[0])
                               : driver_->receive(device.memory, 12, peer, device.both, device.streams[0]);
      ASSERT_EQ(code, 0);
      ASSERT_EQ(driver_->group_end(), 0);
    }
    EXPECT_FALSE(finish());
    EXPECT_NE(driver_->stream_query(devices_[0].streams[0]), kNotReady);
  }
}

// The launch says that two numbers are written, and the kernel writes four.
TEST_F(Recording, FindsKernelsThatWriteElsewhere) {
  start({.devices = 2});
  ASSERT_EQ(driver_->set_device(0), 0);
  ASSERT_EQ(driver_->launch(constant(devices_[0].floats(), 5, 2), devices_[0].streams[0]), 0);
  EXPECT_FALSE(finish());
  const Status status = driver_->check_device(0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "the kernel 'pointwise' writes where its launch does not say");
}

TEST_F(Recording, RefusesMemoryThatIsNotTheDevices) {
  start({.devices = 2});
  ASSERT_EQ(driver_->set_device(0), 0);
  EXPECT_NE(driver_->fill(devices_[1].memory, 0, 8, devices_[0].streams[0]), 0);
  EXPECT_NE(driver_->fill(devices_[0].memory + kBytes - 4, 0, 8, devices_[0].streams[0]), 0);
  EXPECT_NE(driver_->launch(constant(devices_[1].floats(), 1), devices_[0].streams[0]), 0);
}

TEST_F(Recording, FailsTheCallThatItIsToldTo) {
  start({.devices = 2, .seed = 0, .failures = {{EntryPoint::fill, 2, 77}}});
  ASSERT_EQ(driver_->set_device(0), 0);
  EXPECT_EQ(driver_->fill(devices_[0].memory, 0, 8, devices_[0].streams[0]), 0);
  EXPECT_EQ(driver_->fill(devices_[0].memory, 0, 8, devices_[0].streams[0]), 77);
  EXPECT_EQ(driver_->fill(devices_[0].memory, 0, 8, devices_[0].streams[0]), 0);
  EXPECT_EQ(check(*driver_, EntryPoint::fill, 77).error().message,
            "cudaMemsetAsync: the failure that was asked for (error 77)");
}

// Whoever adds an entry point says there what has run it.
TEST(EntryPoints, AreListedInTheDocumentation) {
  std::ifstream file(GPU_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::size_t rows = 0;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) ++rows;
  EXPECT_EQ(rows, kEntryPoints.size());
  for (const char* entry : kEntryPoints)
    EXPECT_NE(page.find(std::string("\n| `") + entry + "` |"), std::string::npos) << entry;
}

}  // namespace
}  // namespace meshwright::cuda
