// Entry points of CUDA and NCCL as a GPU answers them; skipped where there is none. One GPU has communicators of one
// rank alone, so that collectives hand their argument on.
#include "gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace meshwright::cuda {
namespace {

constexpr std::size_t kNumbers = 1000, kBytes = kNumbers * sizeof(float);

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const Status opened = gpu_.open();
    if (Gpu::is_absent(opened)) GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
  }

  Driver& driver() { return gpu_.driver(); }
  std::byte* place(std::size_t number) { return gpu_.memory() + number * kBytes; }

  void done(EntryPoint entry, Code code) {
    const Status status = check(driver(), entry, code);
    ASSERT_TRUE(status) << status.error().message;
  }

  // In a place.
  void put(std::size_t number, const std::vector<float>& numbers) {
    done(EntryPoint::copy, driver().copy(place(number), numbers.data(), kBytes, CopyKind::to_device, gpu_.stream()));
    ASSERT_TRUE(gpu_.wait());
  }
  std::vector<float> get(std::size_t number) {
    std::vector<float> numbers(kNumbers);
    done(EntryPoint::copy, driver().copy(numbers.data(), place(number), kBytes, CopyKind::to_host, gpu_.stream()));
    EXPECT_TRUE(gpu_.wait());
    return numbers;
  }

  static std::vector<float> count_from(float first) {
    std::vector<float> numbers(kNumbers);
    for (float& number : numbers) number = first++;
    return numbers;
  }

  Gpu gpu_{4 * kBytes};
};

TEST_F(OnGpu, DoesWhatWasCapturedWhenItIsLaunched) {
  const std::vector<float> numbers = count_from(1), others = count_from(7);
  put(0, numbers);
  put(1, others);
  done(EntryPoint::capture_begin, driver().begin_capture(gpu_.stream()));
  done(EntryPoint::copy, driver().copy(place(1), place(0), kBytes, CopyKind::on_device, gpu_.stream()));
  StepGraph graph;
  EntryPoint entry = EntryPoint::capture_end;
  const Code code = driver().end_capture(gpu_.stream(), graph, entry);
  done(entry, code);
  EXPECT_EQ(get(1), others);
  done(EntryPoint::graph_launch, driver().launch_graph(graph, gpu_.stream()));
  EXPECT_EQ(get(1), numbers);
  done(EntryPoint::graph_forget, driver().destroy_graph(graph));
}

TEST_F(OnGpu, StreamsWaitForEvents) {
  Stream other;
  Event event;
  done(EntryPoint::stream_create, driver().stream_create(other));
  done(EntryPoint::event_create, driver().event_create(event));
  const std::vector<float> numbers = count_from(1);
  for (int i = 0; i < 100; ++i) {  // without the wait one of these would see zeros
    done(EntryPoint::fill, driver().fill(place(0), 0, kBytes, gpu_.stream()));
    done(EntryPoint::copy, driver().copy(place(0), numbers.data(), kBytes, CopyKind::to_device, gpu_.stream()));
    done(EntryPoint::event_record, driver().event_record(event, gpu_.stream()));
    done(EntryPoint::stream_wait_event, driver().stream_wait_event(other, event));
    done(EntryPoint::copy, driver().copy(place(1), place(0), kBytes, CopyKind::on_device, other));
    done(EntryPoint::event_record, driver().event_record(event, other));
    done(EntryPoint::stream_wait_event, driver().stream_wait_event(gpu_.stream(), event));
    ASSERT_EQ(get(1), numbers);
  }
  done(EntryPoint::event_destroy, driver().event_destroy(event));
  done(EntryPoint::stream_destroy, driver().stream_destroy(other));
}

TEST_F(OnGpu, SaysWhatFailed) {
  std::byte* memory = nullptr;
  const Status refused = check(driver(), EntryPoint::allocate, driver().allocate(memory, std::size_t{1} << 50U));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "cudaMalloc: out of memory (error 2)");
  const Status absent = check(driver(), EntryPoint::set_device, driver().set_device(1000));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "cudaSetDevice: invalid device ordinal (error 101)");
  put(0, count_from(0));  // a call that failed spoils none behind it
}

TEST_F(OnGpu, NcclHandsOnWhatARankAloneGives) {
  UniqueId id{};
  Communicator alone;
  const Code code = driver().get_unique_id(id);
  if (code == -1) GTEST_SKIP() << driver().error_text(EntryPoint::get_unique_id, code);
  done(EntryPoint::get_unique_id, code);
  done(EntryPoint::group_start, driver().group_start());
  done(EntryPoint::init_communicator, driver().init_communicator(alone, 1, id, 0));
  done(EntryPoint::group_end, driver().group_end());
  const std::vector<float> numbers = count_from(5);
  const auto expect_handed_on = [&](EntryPoint entry, const auto& call) {
    put(0, numbers);
    put(1, count_from(-1));
    done(entry, call());
    EXPECT_EQ(get(1), numbers) << name(entry);
  };
  for (const bool maximum : {false, true}) {
    expect_handed_on(EntryPoint::all_reduce, [&] {
      return driver().all_reduce(place(0), place(1), kNumbers, DType::float32, maximum, alone, gpu_.stream());
    });
    expect_handed_on(EntryPoint::reduce_scatter, [&] {
      return driver().reduce_scatter(place(0), place(1), kNumbers, DType::float32, maximum, alone, gpu_.stream());
    });
  }
  expect_handed_on(EntryPoint::all_gather, [&] {
    return driver().all_gather(place(0), place(1), kNumbers, DType::float32, alone, gpu_.stream());
  });
  expect_handed_on(EntryPoint::send, [&] {
    done(EntryPoint::group_start, driver().group_start());
    done(EntryPoint::send, driver().send(place(0), kBytes, 0, alone, gpu_.stream()));
    done(EntryPoint::receive, driver().receive(place(1), kBytes, 0, alone, gpu_.stream()));
    return driver().group_end();
  });
  Code error = -1;
  done(EntryPoint::communicator_error, driver().communicator_error(alone, error));
  EXPECT_EQ(error, 0);
  done(EntryPoint::destroy_communicator, driver().destroy_communicator(alone));
}

TEST_F(OnGpu, NcclEndsACommunicatorThatIsAborted) {
  UniqueId id{};
  Communicator alone;
  if (driver().get_unique_id(id) == -1) GTEST_SKIP() << "NCCL was not found";
  done(EntryPoint::init_communicator, driver().init_communicator(alone, 1, id, 0));
  done(EntryPoint::abort_communicator, driver().abort_communicator(alone));
}

}  // namespace
}  // namespace meshwright::cuda
