#include "loopback_driver.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/collectives.h"
#include "seen.h"

namespace meshwright::cuda {

namespace {

constexpr Code kNotSupported = 801;                         // cudaErrorNotSupported
constexpr Code kInvalidDevice = 101, kInvalidArgument = 4;  // cudaErrorInvalidDevice, ncclInvalidArgument
constexpr Code kInside = -10;  // a call of the inner driver failed, in the place of what NCCL would do

// Of one rank in the collective that its group comes together for.
struct Call {
  EntryPoint entry = EntryPoint::all_reduce;
  GatheringArguments arguments;  // without pointers
  const void* from = nullptr;
  void* to = nullptr;
  Stream stream;

  [[nodiscard]] bool is_as(const Call& other) const {
    return entry == other.entry && arguments.element == other.arguments.element &&
           arguments.count == other.arguments.count && arguments.maximum == other.arguments.maximum;
  }
};

// A message on its way.
struct Letter {
  const void* from = nullptr;
  std::size_t bytes = 0;
  Event sent, received;
  bool is_received = false;
  std::byte* memory = nullptr;  // of its own: who sends does not wait until it is received
  std::size_t memory_bytes = 0;
};

struct LoopbackGroup {
  std::vector<Event> ready;  // by rank: what it gives is there
  Event done;                // what the last collective made is there
  std::vector<Call> calls;   // by rank, of the collective that is coming together
  std::size_t arrived = 0;
  std::uint64_t collectives = 0;                               // that came together
  Code code = 0;                                               // of the last one
  std::map<std::pair<int, int>, std::deque<Letter*>> letters;  // by sender and receiver, in order
};

// Of one rank.
struct LoopbackMember {
  LoopbackGroup* group = nullptr;
  int rank = 0, device = 0;
};

struct Posted {
  bool sends = false;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  LoopbackMember* member = nullptr;
  Stream stream;
};

// Of a thread.
struct LoopbackThread {
  int device = 0, depth = 0;  // of groups that are open
  std::vector<Posted> posted;
};

class LoopbackDriver final : public Driver {
 public:
  LoopbackDriver(std::unique_ptr<Driver> inner, int ranks)
      : inner_(std::move(inner)), ranks_(ranks), stuck_(static_cast<std::size_t>(ranks), false) {}
  ~LoopbackDriver() override {
    for (const Event event : events_) inner_->event_destroy(event);
    for (const Letter& letter : letters_) {
      if (letter.memory != nullptr) inner_->release(letter.memory);
    }
  }

  Code get_device_count(int& count) override {
    const Code code = inner_->get_device_count(count);
    if (code == 0 && count > 0) count = ranks_;
    return code;
  }
  Code set_device(int device) override {
    if (device < 0 || device >= ranks_) return kInvalidDevice;
    if (const Code code = inner_->set_device(0)) return code;
    const std::lock_guard lock(mutex_);
    here().device = device;
    return 0;
  }
  Code allocate(std::byte*& memory, std::size_t bytes) override { return inner_->allocate(memory, bytes); }
  Code release(std::byte* memory) override { return inner_->release(memory); }
  Code stream_create(Stream& stream) override { return inner_->stream_create(stream); }
  Code stream_destroy(Stream stream) override { return inner_->stream_destroy(stream); }
  Code stream_query(Stream stream) override {
    {
      const std::lock_guard lock(mutex_);
      if (stuck_[static_cast<std::size_t>(here().device)]) return kNotReady;
    }
    return inner_->stream_query(stream);
  }
  Code event_create(Event& event) override { return inner_->event_create(event); }
  Code event_destroy(Event event) override { return inner_->event_destroy(event); }
  Code event_record(Event event, Stream stream) override { return inner_->event_record(event, stream); }
  Code stream_wait_event(Stream stream, Event event) override { return inner_->stream_wait_event(stream, event); }
  Code copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) override {
    return inner_->copy(to, from, bytes, kind, stream);
  }
  Code fill(void* to, int byte, std::size_t bytes, Stream stream) override {
    return inner_->fill(to, byte, bytes, stream);
  }
  Code load_kernels(EntryPoint& entry) override {
    if (has_kernels_) return 0;
    const Code code = inner_->load_kernels(entry);
    has_kernels_ = code == 0;
    return code;
  }
  Code load_chains(const std::string& source, std::size_t count, EntryPoint& entry) override {
    if (has_chains_) return 0;
    const Code code = inner_->load_chains(source, count, entry);
    has_chains_ = code == 0;
    return code;
  }
  Code launch(const Launch& launch, Stream stream) override { return inner_->launch(launch, stream); }

  // Ranks meet on the host.
  [[nodiscard]] bool captures() const override { return false; }
  Code begin_capture(Stream) override { return kNotSupported; }
  Code end_capture(Stream, StepGraph&, EntryPoint&) override { return kNotSupported; }
  Code launch_graph(StepGraph, Stream) override { return kNotSupported; }
  Code destroy_graph(StepGraph) override { return kNotSupported; }

  Code plan_product(const ProductShape& shape, ProductPlan& plan, EntryPoint& entry) override {
    return inner_->plan_product(shape, plan, entry);
  }
  Code product(const Product& product, Stream stream) override { return inner_->product(product, stream); }
  Code plan_dnn(const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry) override {
    return inner_->plan_dnn(graph, plan, entry);
  }
  Code run_dnn(const DnnCall& call, Stream stream, EntryPoint& entry) override {
    return inner_->run_dnn(call, stream, entry);
  }
  Code release_dnn(EntryPoint& entry) override { return inner_->release_dnn(entry); }
  // The first rank at its end lets go of what all have.
  Code release_products(EntryPoint& entry) override { return inner_->release_products(entry); }

  Code get_unique_id(UniqueId& id) override {
    const std::lock_guard lock(mutex_);
    id.fill(0);
    const std::size_t number = groups_.size();
    std::memcpy(id.data(), &number, sizeof number);
    groups_.emplace_back();
    return 0;
  }
  Code init_communicator(Communicator& communicator, int ranks, const UniqueId& id, int rank) override {
    const std::lock_guard lock(mutex_);
    std::size_t number = 0;
    std::memcpy(&number, id.data(), sizeof number);
    LoopbackGroup& group = groups_[number];
    if (group.done.handle == nullptr) {
      group.ready.resize(static_cast<std::size_t>(ranks));
      group.calls.resize(static_cast<std::size_t>(ranks));
      if (const Code code = create(group.done)) return code;
    }
    if (const Code code = create(group.ready[static_cast<std::size_t>(rank)])) return code;
    communicator.handle = &members_.emplace_back(LoopbackMember{&group, rank, here().device});
    return 0;
  }
  Code destroy_communicator(Communicator) override { return 0; }
  Code abort_communicator(Communicator) override {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
    return 0;
  }
  Code communicator_error(Communicator, Code& error) override {
    error = 0;
    return 0;
  }

  Code group_start() override {
    const std::lock_guard lock(mutex_);
    ++here().depth;
    return 0;
  }
  // All that is sent is on its way before this rank waits for what it receives, and that is there before it waits for
  // what it sent to have been received. Who sends alone waits for nobody: in NCCL its stream would, and its thread goes
  // on to what others need of it.
  Code group_end() override {
    std::unique_lock lock(mutex_);
    LoopbackThread& thread = here();
    if (--thread.depth > 0) return 0;
    const std::vector<Posted> posted = std::exchange(thread.posted, {});
    if (posted.empty() || !wait(lock, *posted.front().member, [] { return true; })) return 0;
    std::vector<std::pair<const Posted*, Letter*>> sent;
    const bool sends_alone = std::ranges::all_of(posted, &Posted::sends);
    for (const Posted& each : posted) {
      if (!each.sends) continue;
      if (sends_alone) {
        if (const Code code = send_copy(each)) return code;
        continue;
      }
      Letter* letter = nullptr;
      if (const Code code = send(each, letter)) return code;
      sent.emplace_back(&each, letter);
    }
    for (const Posted& each : posted) {
      if (each.sends) continue;
      if (const Code code = receive(each, lock)) return code;
    }
    for (const auto& [each, letter] : sent) {
      if (!wait(lock, *each->member, [&received = letter->is_received] { return received; })) continue;
      if (const Code code =
              inside(EntryPoint::stream_wait_event, inner_->stream_wait_event(each->stream, letter->received)))
        return code;
      free_.push_back(letter);
    }
    return 0;
  }
  Code all_reduce(const void* from, void* to, std::size_t count, DType dtype, bool maximum, Communicator communicator,
                  Stream stream) override {
    return gather(EntryPoint::all_reduce, Gathering::all_reduce, from, to, count, dtype, maximum, communicator, stream);
  }
  Code all_gather(const void* from, void* to, std::size_t count, DType dtype, Communicator communicator,
                  Stream stream) override {
    const std::size_t bytes = count * static_cast<std::size_t>(size_bytes(dtype));
    return gather(EntryPoint::all_gather, Gathering::all_gather, from, to, bytes, DType::uint8, false, communicator,
                  stream);
  }
  Code reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, bool maximum,
                      Communicator communicator, Stream stream) override {
    return gather(EntryPoint::reduce_scatter, Gathering::reduce_scatter, from, to, count, dtype, maximum, communicator,
                  stream);
  }
  Code send(const void* from, std::size_t bytes, int peer, Communicator communicator, Stream stream) override {
    return post({true, const_cast<void*>(from), bytes, peer, &of(communicator), stream});
  }
  Code receive(void* to, std::size_t bytes, int peer, Communicator communicator, Stream stream) override {
    return post({false, to, bytes, peer, &of(communicator), stream});
  }

  std::string error_text(EntryPoint entry, Code code) override {
    if (entry == EntryPoint::set_device && code == kInvalidDevice) return "there are fewer ranks";
    if (code == kInside) {
      const std::lock_guard lock(mutex_);
      return inside_;
    }
    if (entry >= EntryPoint::get_unique_id && code == kInvalidArgument)
      return "ranks that share a GPU asked for what does not fit together, or a type that their kernel lacks";
    return inner_->error_text(entry, code);
  }
  Status check_device(int device) override { return device == 0 ? inner_->check_device(0) : Status(Done{}); }

 private:
  static LoopbackMember& of(Communicator communicator) { return *static_cast<LoopbackMember*>(communicator.handle); }
  LoopbackThread& here() { return threads_[std::this_thread::get_id()]; }

  // Keeps what the first one that failed says.
  Code inside(EntryPoint entry, Code code) {
    if (code == 0) return 0;
    if (inside_.empty()) inside_ = check(*inner_, entry, code).error().message;
    return kInside;
  }

  Code create(Event& event) {
    const Code code = inside(EntryPoint::event_create, inner_->event_create(event));
    if (code == 0) events_.push_back(event);
    return code;
  }

  // False: somebody was aborted, and this rank's device gets no more done, as NCCL leaves it.
  template <class IsSo>
  bool wait(std::unique_lock<std::mutex>& lock, const LoopbackMember& member, const IsSo& is_so) {
    changed_.wait(lock, [&] { return aborted_ || is_so(); });
    if (!aborted_) return true;
    stuck_[static_cast<std::size_t>(member.device)] = true;
    return false;
  }

  Code gather(EntryPoint entry, Gathering kind, const void* from, void* to, std::size_t count, DType dtype,
              bool maximum, Communicator communicator, Stream stream) {
    const Result<Element> element = element_for(dtype);
    if (!element) return kInvalidArgument;
    std::unique_lock lock(mutex_);
    const LoopbackMember& member = of(communicator);
    if (!wait(lock, member, [] { return true; })) return 0;
    LoopbackGroup& group = *member.group;
    const auto rank = static_cast<std::size_t>(member.rank);
    Call& call = group.calls[rank];
    call = {entry, {}, from, to, stream};
    call.arguments.kind = kind;
    call.arguments.element = *element;
    call.arguments.maximum = maximum;
    call.arguments.ranks = static_cast<std::int32_t>(group.calls.size());
    call.arguments.count = static_cast<std::int64_t>(count);
    if (const Code code = inside(EntryPoint::event_record, inner_->event_record(group.ready[rank], stream)))
      return code;
    const std::uint64_t own = group.collectives;
    if (++group.arrived == group.calls.size()) {
      group.code = run(group, stream);
      group.arrived = 0;
      ++group.collectives;
      changed_.notify_all();
      return group.code;
    }
    if (!wait(lock, member, [&] { return group.collectives > own; })) return 0;
    return group.code != 0 ? group.code
                           : inside(EntryPoint::stream_wait_event, inner_->stream_wait_event(stream, group.done));
  }

  // By whoever comes last, on its stream.
  Code run(LoopbackGroup& group, Stream stream) {
    GatheringArguments arguments = group.calls.front().arguments;
    const std::int64_t ranks = arguments.ranks;
    const bool gathers = arguments.kind == Gathering::all_gather,
               scatters = arguments.kind == Gathering::reduce_scatter;
    const auto bytes = static_cast<std::size_t>(arguments.count * size_bytes(static_cast<DType>(arguments.element)));
    Launch launch{KernelId::gathering, {}, (gathers || scatters ? ranks : 1) * arguments.count, {}, {}};
    for (std::size_t r = 0; r < group.calls.size(); ++r) {
      const Call& call = group.calls[r];
      if (!call.is_as(group.calls.front())) return kInvalidArgument;
      if (const Code code = inside(EntryPoint::stream_wait_event, inner_->stream_wait_event(stream, group.ready[r])))
        return code;
      arguments.from[r] = call.from;
      arguments.to[r] = call.to;
      launch.reads.push_back({static_cast<const std::byte*>(call.from), bytes * (scatters ? group.calls.size() : 1)});
      launch.writes.push_back({static_cast<const std::byte*>(call.to), bytes * (gathers ? group.calls.size() : 1)});
    }
    launch.arguments.resize(sizeof arguments);
    std::memcpy(launch.arguments.data(), &arguments, sizeof arguments);
    if (launch.count > 0) {
      if (const Code code = inside(EntryPoint::launch, inner_->launch(launch, stream))) return code;
    }
    return inside(EntryPoint::event_record, inner_->event_record(group.done, stream));
  }

  Code post(const Posted& posted) {
    const std::lock_guard lock(mutex_);
    if (here().depth == 0) return kInvalidArgument;  // a single one would wait for another for ever
    here().posted.push_back(posted);
    return 0;
  }

  Code make_letter(Letter*& letter) {
    letter = &letters_.emplace_back();
    if (const Code code = create(letter->sent)) return code;
    return create(letter->received);
  }

  Code send(const Posted& posted, Letter*& letter) {
    if (free_.empty()) {
      if (const Code code = make_letter(letter)) return code;
    } else {
      letter = free_.back();
      free_.pop_back();
    }
    letter->from = posted.data;
    return put_on_its_way(posted, *letter);
  }

  // The memory of a letter is free when whoever received it before has copied it.
  Code send_copy(const Posted& posted) {
    const auto free =
        std::ranges::find_if(free_copies_, [&](const Letter* letter) { return letter->memory_bytes >= posted.bytes; });
    Letter* letter = nullptr;
    if (free != free_copies_.end()) {
      letter = *free;
      free_copies_.erase(free);
      if (const Code code =
              inside(EntryPoint::stream_wait_event, inner_->stream_wait_event(posted.stream, letter->received)))
        return code;
    } else {
      if (const Code code = make_letter(letter)) return code;
      if (const Code code = inside(EntryPoint::allocate, inner_->allocate(letter->memory, posted.bytes))) return code;
      letter->memory_bytes = posted.bytes;
    }
    letter->from = letter->memory;
    if (const Code code = inside(EntryPoint::copy, inner_->copy(letter->memory, posted.data, posted.bytes,
                                                                CopyKind::on_device, posted.stream)))
      return code;
    return put_on_its_way(posted, *letter);
  }

  Code put_on_its_way(const Posted& posted, Letter& letter) {
    letter.bytes = posted.bytes;
    letter.is_received = false;
    if (const Code code = inside(EntryPoint::event_record, inner_->event_record(letter.sent, posted.stream)))
      return code;
    posted.member->group->letters[{posted.member->rank, posted.peer}].push_back(&letter);
    changed_.notify_all();
    return 0;
  }

  Code receive(const Posted& posted, std::unique_lock<std::mutex>& lock) {
    std::deque<Letter*>& letters = posted.member->group->letters[{posted.peer, posted.member->rank}];
    if (!wait(lock, *posted.member, [&] { return !letters.empty(); })) return 0;
    Letter& letter = *letters.front();
    letters.pop_front();
    if (letter.bytes != posted.bytes) return kInvalidArgument;
    if (const Code code = inside(EntryPoint::stream_wait_event, inner_->stream_wait_event(posted.stream, letter.sent)))
      return code;
    if (const Code code = inside(
            EntryPoint::copy, inner_->copy(posted.data, letter.from, letter.bytes, CopyKind::on_device, posted.stream)))
      return code;
    if (const Code code = inside(EntryPoint::event_record, inner_->event_record(letter.received, posted.stream)))
      return code;
    letter.is_received = true;
    if (letter.memory != nullptr) free_copies_.push_back(&letter);
    changed_.notify_all();
    return 0;
  }

  const std::unique_ptr<Driver> inner_;
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_kernels_ = false, has_chains_ = false, aborted_ = false;
  std::vector<char> stuck_;  // by device
  std::map<std::thread::id, LoopbackThread> threads_;
  std::deque<LoopbackGroup> groups_;
  std::deque<LoopbackMember> members_;
  std::deque<Letter> letters_;
  std::vector<Letter*> free_, free_copies_;  // the latter with memory of their own
  std::vector<Event> events_;
  std::string inside_;
};

}  // namespace

Result<std::unique_ptr<Driver>> make_loopback_driver(std::unique_ptr<Driver> inner, std::int64_t ranks) {
  if (ranks > kMaxLoopbackRanks)
    return bad_input("emit.cuda.loopback lets at most " + std::to_string(kMaxLoopbackRanks) +
                     " ranks share a GPU, and the plan has " + std::to_string(ranks));
  return std::unique_ptr<Driver>(std::make_unique<LoopbackDriver>(std::move(inner), static_cast<int>(ranks)));
}

}  // namespace meshwright::cuda
