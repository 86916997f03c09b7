#include "recording_driver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "called.h"
#include "far_members.h"
#include "guarded_kernel.h"
#include "host_product.h"
#include "recorded_device.h"
#include "recorded_graphs.h"
#include "recorded_libraries.h"
#include "recorded_streams.h"
#include "trace.h"

namespace meshwright::cuda {

namespace {

constexpr Code kInvalid = 1;          // cudaErrorInvalidValue
constexpr Code kCaptured = 900;       // cudaErrorStreamCaptureUnsupported
constexpr Code kInvalidArgument = 4;  // ncclInvalidArgument
constexpr Code kInvalidProduct = 7;   // CUBLAS_STATUS_INVALID_VALUE
constexpr Code kInvalidDnn = 2000;    // CUDNN_STATUS_BAD_PARAM

class RecordingDriver final : public Driver {
 public:
  explicit RecordingDriver(const RecordingOptions& options)
      : options_(options), devices_(static_cast<std::size_t>(options.devices)), streams_(options.seed) {}

  Code get_device_count(int& count) override {
    if (const Code code = enter(EntryPoint::get_device_count)) return code;
    count = options_.devices;
    return 0;
  }
  Code set_device(int device) override {
    if (const Code code = enter(EntryPoint::set_device)) return code;
    if (device < 0 || device >= options_.devices) return 101;  // cudaErrorInvalidDevice
    const std::lock_guard lock(mutex_);
    current_[std::this_thread::get_id()] = device;
    return 0;
  }
  Code allocate(std::byte*& memory, std::size_t bytes) override {
    if (const Code code = enter(EntryPoint::allocate)) return code;
    const std::lock_guard lock(mutex_);
    std::vector<std::byte> block(bytes, std::byte{0xff});
    memory = block.data();
    here().memory.emplace(memory, std::move(block));
    return 0;
  }
  Code release(std::byte* memory) override {
    if (const Code code = enter(EntryPoint::release)) return code;
    const std::lock_guard lock(mutex_);
    return here().memory.erase(memory) == 1 ? 0 : kInvalid;
  }

  Code stream_create(Stream& stream) override {
    if (const Code code = enter(EntryPoint::stream_create)) return code;
    const std::lock_guard lock(mutex_);
    stream.handle = &add_stream();
    return 0;
  }
  Code stream_destroy(Stream stream) override {
    if (const Code code = enter(EntryPoint::stream_destroy)) return code;
    const std::lock_guard lock(mutex_);
    of(stream).jobs.clear();
    return 0;
  }
  // Whoever asks lets one thing happen, on any device.
  Code stream_query(Stream stream) override {
    if (const Code code = enter(EntryPoint::stream_query)) return code;
    const std::lock_guard lock(mutex_);
    RecordedStream& queried = of(stream);
    if (captured(queried) != nullptr) return kCaptured;
    streams_.advance();
    if (queried.failed) return 719;  // cudaErrorLaunchFailure
    if (!queried.jobs.empty()) return kNotReady;
    trace(queried, {TraceKind::joined, queried.number, 0, "", {}, {}});
    return 0;
  }
  Code event_create(Event& event) override {
    if (const Code code = enter(EntryPoint::event_create)) return code;
    const std::lock_guard lock(mutex_);
    event.handle = &add_event();
    return 0;
  }
  Code event_destroy(Event) override { return enter(EntryPoint::event_destroy); }
  Code event_record(Event event, Stream stream) override {
    if (const Code code = enter(EntryPoint::event_record)) return code;
    const std::lock_guard lock(mutex_);
    return enqueue(event_call(JobKind::record, of(stream), *static_cast<RecordedEvent*>(event.handle)));
  }
  Code stream_wait_event(Stream stream, Event event) override {
    if (const Code code = enter(EntryPoint::stream_wait_event)) return code;
    const std::lock_guard lock(mutex_);
    if (++here().waits == options_.omitted_wait) return 0;
    return enqueue(event_call(JobKind::wait, of(stream), *static_cast<RecordedEvent*>(event.handle)));
  }

  Code copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) override {
    if (const Code code = enter(EntryPoint::copy)) return code;
    const std::lock_guard lock(mutex_);
    const Range read{static_cast<const std::byte*>(from), bytes}, written{static_cast<const std::byte*>(to), bytes};
    if (kind != CopyKind::to_device && !is_ours(read)) return kInvalid;
    if (kind != CopyKind::to_host && !is_ours(written)) return kInvalid;
    return add_work(of(stream), name(EntryPoint::copy), {read}, {written}, [=] {
      std::memcpy(to, from, bytes);
      return true;
    });
  }
  Code fill(void* to, int byte, std::size_t bytes, Stream stream) override {
    if (const Code code = enter(EntryPoint::fill)) return code;
    const std::lock_guard lock(mutex_);
    const Range written{static_cast<const std::byte*>(to), bytes};
    if (!is_ours(written)) return kInvalid;
    return add_work(of(stream), name(EntryPoint::fill), {}, {written}, [=] {
      std::memset(to, byte, bytes);
      return true;
    });
  }
  Code load_kernels(EntryPoint& entry) override {
    entry = EntryPoint::load_module;
    if (const Code code = enter(entry)) return code;
    entry = EntryPoint::get_function;
    for (std::size_t i = 0; i < kKernels; ++i) {
      if (const Code code = enter(entry)) return code;
    }
    const std::lock_guard lock(mutex_);
    here().has_kernels = true;
    return 0;
  }
  // Each is what the kernel `chain` does; the compiled text is run by a test (chain_source_test.cpp).
  Code load_chains(const std::string& /*source*/, std::size_t count, EntryPoint& entry) override {
    if (const Code code =
            libraries_.enter_all({EntryPoint::get_attribute, EntryPoint::compiler_create, EntryPoint::compiler_compile,
                                  EntryPoint::compiler_get_size, EntryPoint::compiler_get_module,
                                  EntryPoint::compiler_destroy, EntryPoint::load_module},
                                 entry))
      return code;
    entry = EntryPoint::get_function;
    for (std::size_t i = 0; i < count; ++i) {
      if (const Code code = enter(entry)) return code;
    }
    const std::lock_guard lock(mutex_);
    here().chains = count;
    return 0;
  }
  Code launch(const Launch& launch, Stream stream) override {
    if (const Code code = enter(EntryPoint::launch)) return code;
    const std::lock_guard lock(mutex_);
    if (!here().has_kernels || launch.compiled > here().chains) return 98;  // cudaErrorInvalidDeviceFunction
    if (!are_ours(launch.reads) || !are_ours(launch.writes)) return kInvalid;
    const int device = current();
    return add_work(of(stream), kernel(launch.kernel).name, launch.reads, launch.writes,
                    [this, launch, device] { return run(launch, device); });
  }

  Code begin_capture(Stream stream) override {
    if (const Code code = enter(EntryPoint::capture_begin)) return code;
    const std::lock_guard lock(mutex_);
    graphs_.emplace_back(of(stream));
    return 0;
  }
  Code end_capture(Stream stream, StepGraph& graph, EntryPoint& entry) override {
    if (const Code code = libraries_.enter_all(
            {EntryPoint::graph_destroy, EntryPoint::graph_instantiate, EntryPoint::capture_end}, entry))
      return code;
    const std::lock_guard lock(mutex_);
    RecordedGraph* const made = captured(of(stream));
    graph.handle = made;
    return made != nullptr ? made->end(of(stream)) : kInvalid;
  }
  Code launch_graph(StepGraph graph, Stream stream) override {
    if (const Code code = enter(EntryPoint::graph_launch)) return code;
    const std::lock_guard lock(mutex_);
    const auto make_stream = [this]() -> RecordedStream& { return add_stream(); };
    const auto make_event = [this]() -> RecordedEvent& { return add_event(); };
    for (RecordedCall& call :
         static_cast<RecordedGraph*>(graph.handle)->launched(of(stream), make_stream, make_event)) {
      if (const Code code = enqueue(std::move(call))) return code;
    }
    return 0;
  }
  Code destroy_graph(StepGraph) override { return enter(EntryPoint::graph_forget); }

  Code plan_product(const ProductShape& shape, ProductPlan& plan, EntryPoint& entry) override {
    return libraries_.plan(device(), shape, plan, entry);
  }
  Code product(const Product& product, Stream stream) override {
    if (const Code code = enter(EntryPoint::product)) return code;
    if (!libraries_.is_planned(device(), product.shape)) return kInvalidProduct;
    return run_in_library({launch_of(product)}, product.workspace, product.workspace_bytes, EntryPoint::product,
                          kInvalidProduct, stream);
  }
  Code release_products(EntryPoint& entry) override { return libraries_.release_products(device(), entry); }

  Code plan_dnn(const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry) override {
    return libraries_.plan(device(), graph, plan, entry);
  }
  Code run_dnn(const DnnCall& call, Stream stream, EntryPoint& entry) override {
    if (const Code code =
            libraries_.enter_all({EntryPoint::dnn_set_stream, EntryPoint::dnn_make, EntryPoint::dnn_set,
                                  EntryPoint::dnn_finalize, EntryPoint::dnn_execute, EntryPoint::dnn_forget},
                                 entry))
      return code;
    if (!libraries_.is_planned(device(), *call.graph)) return kInvalidDnn;
    return run_in_library(call.kernels, call.workspace, call.workspace_bytes, EntryPoint::dnn_execute, kInvalidDnn,
                          stream);
  }
  Code release_dnn(EntryPoint& entry) override { return libraries_.release_dnn(device(), entry); }

  Code get_unique_id(UniqueId& id) override {
    if (const Code code = enter(EntryPoint::get_unique_id)) return code;
    const std::lock_guard lock(mutex_);
    id.fill(0);
    const std::size_t number = groups_.size();
    std::memcpy(id.data(), &number, sizeof number);
    if (options_.mail != nullptr) id = make_far_id(*options_.mail, number);
    groups_.emplace_back();
    return 0;
  }
  Code init_communicator(Communicator& communicator, int ranks, const UniqueId& id, int rank) override {
    if (const Code code = enter(EntryPoint::init_communicator)) return code;
    RecordedGroup met;
    if (options_.mail != nullptr && !meet_far(met, *options_.mail, id, ranks, rank)) return kInvalidArgument;
    const std::lock_guard lock(mutex_);
    std::size_t number = 0;
    if (options_.mail == nullptr) std::memcpy(&number, id.data(), sizeof number);
    RecordedGroup& group = options_.mail == nullptr ? groups_[number] : groups_.emplace_back(std::move(met));
    group.members.resize(static_cast<std::size_t>(ranks), nullptr);
    communicator.handle = group.members[static_cast<std::size_t>(rank)] =
        &communicators_.emplace_back(RecordedCommunicator{&group, rank, false});
    return 0;
  }
  Code destroy_communicator(Communicator) override { return enter(EntryPoint::destroy_communicator); }
  Code abort_communicator(Communicator communicator) override {
    if (const Code code = enter(EntryPoint::abort_communicator)) return code;
    const std::lock_guard lock(mutex_);
    static_cast<RecordedCommunicator*>(communicator.handle)->aborted = true;
    return 0;
  }
  Code communicator_error(Communicator, Code& error) override {
    error = 0;
    return enter(EntryPoint::communicator_error);
  }
  Code group_start() override {
    if (const Code code = enter(EntryPoint::group_start)) return code;
    const std::lock_guard lock(mutex_);
    ++open_[std::this_thread::get_id()].depth;
    return 0;
  }
  Code group_end() override {
    if (const Code code = enter(EntryPoint::group_end)) return code;
    const std::lock_guard lock(mutex_);
    OpenGroup& open = open_[std::this_thread::get_id()];
    if (--open.depth > 0) return 0;
    for (auto& [where, job] : open.exchanges) {
      std::vector<Range> reads, writes;
      for (const RecordedMessage& message : job.sends) reads.push_back({message.data, message.bytes});
      for (const RecordedMessage& message : job.receives) writes.push_back({message.data, message.bytes});
      if (const Code code = add_collective(*where.second, "ncclSend and ncclRecv", std::move(reads), std::move(writes),
                                           std::move(job)))
        return code;
    }
    open.exchanges.clear();
    return 0;
  }
  Code all_reduce(const void* from, void* to, std::size_t count, DType dtype, bool maximum, Communicator communicator,
                  Stream stream) override {
    return collect(EntryPoint::all_reduce, JobKind::all_reduce, from, to, count, 1, 1, dtype, maximum, communicator,
                   stream);
  }
  Code all_gather(const void* from, void* to, std::size_t count, DType dtype, Communicator communicator,
                  Stream stream) override {
    return collect(EntryPoint::all_gather, JobKind::all_gather, from, to, count, 1, members(communicator), dtype, false,
                   communicator, stream);
  }
  Code reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, bool maximum,
                      Communicator communicator, Stream stream) override {
    return collect(EntryPoint::reduce_scatter, JobKind::reduce_scatter, from, to, count, members(communicator), 1,
                   dtype, maximum, communicator, stream);
  }
  Code send(const void* from, std::size_t bytes, int peer, Communicator communicator, Stream stream) override {
    if (const Code code = enter(EntryPoint::send)) return code;
    return post({peer, static_cast<std::byte*>(const_cast<void*>(from)), bytes}, true, communicator, stream);
  }
  Code receive(void* to, std::size_t bytes, int peer, Communicator communicator, Stream stream) override {
    if (const Code code = enter(EntryPoint::receive)) return code;
    return post({peer, static_cast<std::byte*>(to), bytes}, false, communicator, stream);
  }

  std::string error_text(EntryPoint entry, Code code) override {
    const bool is_made = std::ranges::any_of(options_.failures, [&](const RecordingOptions::Failure& failure) {
      return failure.entry == entry && failure.code == code;
    });
    return is_made ? "the failure that was asked for" : "the recording driver refuses it";
  }

  Status check_device(int device) override {
    const std::lock_guard lock(mutex_);
    RecordedDevice& checked = devices_[static_cast<std::size_t>(device)];
    const std::vector<TraceEntry> trace = std::exchange(checked.trace, {});
    if (!checked.wrong.empty()) return internal_error(checked.wrong);
    return check_races(trace);
  }

 private:
  // Counts the call, and fails it where it is to fail.
  Code enter(EntryPoint entry) {
    std::unique_lock lock(mutex_);
    const std::int64_t call = ++calls_[static_cast<std::size_t>(entry)];
    for (const RecordingOptions::Failure& failure : options_.failures) {
      if (failure.entry != entry || failure.call != call) continue;
      lock.unlock();
      while (failure.code == RecordingOptions::kHangs) std::this_thread::sleep_for(std::chrono::seconds(1));
      return failure.code;
    }
    note_called(entry);
    return 0;
  }

  // What a library does is what this backend's own kernel does; the workspace is overwritten.
  Code run_in_library(const std::vector<Launch>& launches, std::byte* workspace, std::size_t bytes, EntryPoint entry,
                      Code invalid, Stream stream) {
    const std::lock_guard lock(mutex_);
    std::vector<Range> reads, writes{{workspace, bytes}};
    for (const Launch& launch : launches) {
      reads.insert(reads.end(), launch.reads.begin(), launch.reads.end());
      writes.insert(writes.end(), launch.writes.begin(), launch.writes.end());
    }
    if (bytes < RecordedLibraries::kWorkspace || reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0 ||
        !are_ours(reads) || !are_ours(writes))
      return invalid;
    return add_work(of(stream), name(entry), std::move(reads), std::move(writes),
                    [this, launches, workspace, bytes, device = current()] {
                      std::memset(workspace, 0xff, bytes);
                      return std::ranges::all_of(launches, [&](const Launch& launch) { return run(launch, device); });
                    });
  }

  // False: it touched what it may not.
  bool run(const Launch& launch, int device) {
    RecordedDevice& at = devices_[static_cast<std::size_t>(device)];
    if (at.wrong.empty()) at.wrong = run_guarded(launch, blocks_of(launch, at));
    return at.wrong.empty();
  }

  int device() {
    const std::lock_guard lock(mutex_);
    return current();
  }
  int current() { return current_[std::this_thread::get_id()]; }
  RecordedDevice& here() { return devices_[static_cast<std::size_t>(current())]; }
  static RecordedStream& of(Stream stream) { return *static_cast<RecordedStream*>(stream.handle); }
  static std::size_t members(Communicator communicator) {
    return static_cast<RecordedCommunicator*>(communicator.handle)->group->members.size();
  }

  bool is_ours(const Range& range) {
    return range.bytes == 0 || std::ranges::any_of(here().memory, [&](const auto& block) {
             return range.begin >= block.second.data() &&
                    range.begin + range.bytes <= block.second.data() + block.second.size();
           });
  }

  bool are_ours(const std::vector<Range>& ranges) {
    return std::ranges::all_of(ranges, [this](const Range& range) { return is_ours(range); });
  }

  // Those that a launch reads or writes.
  static std::vector<std::span<std::byte>> blocks_of(const Launch& launch, RecordedDevice& device) {
    std::vector<std::span<std::byte>> blocks;
    for (auto& [begin, memory] : device.memory) {
      const auto lies_here = [first = begin, end = begin + memory.size()](const Range& range) {
        return range.begin >= first && range.begin < end;
      };
      if (std::ranges::any_of(launch.reads, lies_here) || std::ranges::any_of(launch.writes, lies_here))
        blocks.emplace_back(memory);
    }
    return blocks;
  }

  void trace(const RecordedStream& stream, TraceEntry entry) {
    devices_[static_cast<std::size_t>(stream.device)].trace.push_back(std::move(entry));
  }

  RecordedEvent& add_event() { return events_.emplace_back(RecordedEvent{here().events++, {}}); }
  RecordedStream& add_stream() { return streams_.add(current(), here().streams++); }

  // The graph that is made of what is asked for on the stream; null: it is done.
  RecordedGraph* captured(const RecordedStream& stream) {
    const auto found = std::ranges::find_if(graphs_, [&](const RecordedGraph& graph) { return graph.has(stream); });
    return found == graphs_.end() ? nullptr : &*found;
  }

  Code add_work(RecordedStream& stream, const char* what, std::vector<Range> reads, std::vector<Range> writes,
                std::function<bool()> run) {
    Job job;
    job.run = std::move(run);
    return add_collective(stream, what, std::move(reads), std::move(writes), std::move(job));
  }
  Code add_collective(RecordedStream& stream, const char* what, std::vector<Range> reads, std::vector<Range> writes,
                      Job job) {
    return enqueue(
        {&stream, std::move(job), {TraceKind::work, stream.number, 0, what, std::move(reads), std::move(writes)}});
  }

  Code enqueue(RecordedCall call) {
    for (RecordedGraph& graph : graphs_) {
      if (graph.takes(call)) return graph.add(std::move(call));
      if (call.job.kind == JobKind::record) graph.forget(*call.job.event);
    }
    if (call.job.kind == JobKind::record) call.job.event->done.push_back(false);
    if (call.job.event != nullptr) call.job.record = call.job.event->done.size();
    trace(*call.stream, std::move(call.entry));
    call.stream->jobs.push_back(std::move(call.job));
    return 0;
  }

  Code collect(EntryPoint entry, JobKind kind, const void* from, void* to, std::size_t count, std::size_t reads,
               std::size_t writes, DType dtype, bool maximum, Communicator communicator, Stream stream) {
    if (const Code code = enter(entry)) return code;
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = count * static_cast<std::size_t>(size_bytes(dtype));
    const Range read{static_cast<const std::byte*>(from), bytes * reads},
        written{static_cast<const std::byte*>(to), bytes * writes};
    if (!is_ours(read) || !is_ours(written)) return kInvalidArgument;
    Job job;
    job.kind = kind;
    job.communicator = static_cast<RecordedCommunicator*>(communicator.handle);
    job.from = read.begin;
    job.to = static_cast<std::byte*>(to);
    job.count = count;
    job.dtype = dtype;
    job.maximum = maximum;
    return add_collective(of(stream), name(entry), {read}, {written}, std::move(job));
  }

  Code post(const RecordedMessage& message, bool sends, Communicator communicator, Stream stream) {
    const std::lock_guard lock(mutex_);
    OpenGroup& open = open_[std::this_thread::get_id()];
    if (open.depth == 0 || !is_ours({message.data, message.bytes}))
      return kInvalidArgument;  // a single one could wait for another for ever
    auto* own = static_cast<RecordedCommunicator*>(communicator.handle);
    Job& job = open.exchanges[{own, &of(stream)}];
    job.kind = JobKind::exchange;
    job.communicator = own;
    (sends ? job.sends : job.receives).push_back(message);
    return 0;
  }

  const RecordingOptions options_;
  std::mutex mutex_;
  std::vector<RecordedDevice> devices_;
  RecordedStreams streams_;
  std::deque<RecordedEvent> events_;
  std::deque<RecordedGraph> graphs_;
  std::deque<RecordedGroup> groups_;
  std::deque<RecordedCommunicator> communicators_;
  std::map<std::thread::id, int> current_;
  std::map<std::thread::id, OpenGroup> open_;
  std::array<std::int64_t, kEntryPoints.size()> calls_{};
  RecordedLibraries libraries_{[this](EntryPoint entry) { return enter(entry); }};
};

}  // namespace

std::unique_ptr<Driver> make_recording_driver(const RecordingOptions& options) {
  return std::make_unique<RecordingDriver>(options);
}

}  // namespace meshwright::cuda
