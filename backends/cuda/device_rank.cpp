#include "device_rank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "converted.h"
#include "execution.h"
#include "state_places.h"

namespace meshwright::cuda {

// Of stages that share a device one waits for another one, whose graph the device's thread would launch later.
bool can_be_captured(const RankStep& step, const Driver& driver) { return driver.captures() && !step.shares_device; }

DeviceRank::DeviceRank(const RankInput& input, Devices& devices, std::int64_t seat, RankStep step)
    : program_(input.input.program),
      steps_(input.steps),
      arena_(input.arena),
      settings_(input.input.optimizer),
      devices_(devices),
      driver_(devices.driver()),
      bytes_(input.device),
      rank_(input.rank),
      seat_(seat),
      coordinates_(coordinates_of(program_.mesh, rank_)),
      step_(std::move(step)),
      captures_(program_.training.cuda_graphs && can_be_captured(step_, driver_)),
      taken_steps_(program_.parameters.size(), 0),
      numbers_(program_.parameters.size()) {}

// Outside of a step nobody else says whose error it is.
Status DeviceRank::of_rank(const Status& status) const {
  return status ? status : Status(add_context(devices_.seat(seat_).name, status.error()));
}

Status DeviceRank::set_device() const {
  if (devices_.is_aborted(seat_))
    return internal_error("the run ended with an error, and its communicators with it; start it again");
  return devices_.set(seat_);
}

Tensor DeviceRank::part_of(const Tensor& whole, ShardedType type, DType dtype) const {
  type.type.dtype = whole.type().dtype;
  return converted(cut(whole, type, program_.mesh, coordinates_), dtype);
}

Status DeviceRank::put(Tensor part, std::byte* to) {
  const Tensor& kept = staged_.emplace_back(std::move(part));
  if (kept.bytes().empty()) return Done{};
  return check(driver_, EntryPoint::copy,
               driver_.copy(to, kept.bytes().data(), kept.bytes().size(), CopyKind::to_device,
                            devices_.of(seat_).stream(kCompute)));
}

Status DeviceRank::load_all(const std::vector<const Tensor*>& parameters,
                            const std::vector<const OptimizerState*>& states) {
  if (Status status = set_device(); !status) return status;
  const Stream stream = devices_.of(seat_).stream(kCompute);
  if (step_.block.state_bytes > 0) {
    if (Status status =
            check(driver_, EntryPoint::fill, driver_.fill(step_.block.states(), 0, step_.block.state_bytes, stream));
        !status)
      return status;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ProgramParameter& parameter = program_.parameters[i];
    ShardedType type = program_.type(parameter.value);
    if (Status status = put(part_of(*parameters[i], type, type.type.dtype),
                            step_.block.base + arena_.offsets[program_.place(parameter.value, 0)]);
        !status)
      return status;
    taken_steps_[i] = states[i] == nullptr ? 0 : states[i]->steps;
    const StatePlace kept = state_place(program_, step_.block, i);
    type.layout = parameter.state;
    std::vector<std::pair<const Tensor*, std::byte*>> given{{parameters[i], kept.master}};
    if (taken_steps_[i] > 0) {
      given.emplace_back(&states[i]->first, kept.first);
      given.emplace_back(&states[i]->second, kept.second);
    }
    for (const auto& [whole, to] : given) {
      if (to == nullptr) continue;
      if (Status status = put(part_of(*whole, type, kept.type.dtype), to); !status) return status;
    }
  }
  for (const auto& [place, bytes] : step_.constants) {
    if (bytes.empty()) continue;
    if (Status status = check(
            driver_, EntryPoint::copy,
            driver_.copy(step_.block.constants() + place, bytes.data(), bytes.size(), CopyKind::to_device, stream));
        !status)
      return status;
  }
  Status status = settle();
  staged_.clear();
  return status;
}

Status DeviceRank::load(const std::vector<const Tensor*>& parameters,
                        const std::vector<const OptimizerState*>& states) {
  return of_rank(load_all(parameters, states));
}

Status DeviceRank::put_inputs(const std::vector<const Tensor*>& inputs) {
  if (Status status = set_device(); !status) return status;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    std::byte* place = step_.block.base + arena_.offsets[program_.place(input.value, input.microbatch)];
    const ShardedType& type = program_.type(input.value);
    if (Status status = put(part_of(*inputs[i], type, type.type.dtype), place); !status) return status;
  }
  return put_numbers();
}

void DeviceRank::fail() {
  devices_.abort(seat_);
  watch_.reset();
}

Status DeviceRank::begin(const std::vector<const Tensor*>& inputs, Carrier& carrier, RunObserver* observer) {
  carrier_ = &carrier;
  observer_ = observer;
  at_ = 0;
  watch_.emplace(devices_.watchdog().watch([this] { return where(); }));
  Status status = put_inputs(inputs);
  // The first step is issued as it is: libraries make then what they need.
  if (status && captures_ && has_begun_ && observer == nullptr && !is_replayed()) status = begin_capture();
  has_begun_ = true;
  if (!status) fail();
  return status;
}

Result<bool> DeviceRank::execute(std::size_t step) {
  if (is_replayed()) return true;
  at_ = step;
  for (const Command& command : step_.commands[step]) {
    Status status = issue(command);
    const auto* update = std::get_if<Optimize>(&command.what);
    if (status && update != nullptr && observer_ != nullptr) status = observe_update(*update);
    if (status) continue;
    fail();
    return status.error();
  }
  return true;
}

// Streams that do not follow the first one would be none of the graph.
Status DeviceRank::begin_capture() {
  const SeatDevice& device = devices_.of(seat_);
  const Stream first = device.stream(kCompute);
  if (Status status = check(driver_, EntryPoint::capture_begin, driver_.begin_capture(first)); !status) return status;
  is_capturing_ = true;
  if (Status status = check(driver_, EntryPoint::event_record, driver_.event_record(device.gathered, first)); !status)
    return status;
  for (const StreamNumber stream : other_streams()) {
    if (Status status = check(driver_, EntryPoint::stream_wait_event,
                              driver_.stream_wait_event(device.stream(stream), device.gathered));
        !status)
      return status;
  }
  return Done{};
}

Status DeviceRank::end_capture() {
  is_capturing_ = false;
  const SeatDevice& device = devices_.of(seat_);
  const Stream first = device.stream(kCompute);
  for (const StreamNumber stream : other_streams()) {
    if (Status status =
            check(driver_, EntryPoint::event_record, driver_.event_record(device.gathered, device.stream(stream)));
        !status)
      return status;
    if (Status status =
            check(driver_, EntryPoint::stream_wait_event, driver_.stream_wait_event(first, device.gathered));
        !status)
      return status;
  }
  StepGraph graph;
  EntryPoint entry = EntryPoint::capture_end;
  const Code code = driver_.end_capture(first, graph, entry);
  if (code == 0) devices_.keep_graph(seat_, graph);
  return check(driver_, entry, code);
}

// What was captured, in this step or in an earlier one; nothing, where a step is issued as it is.
Status DeviceRank::replay() {
  if (is_capturing_) {
    if (Status status = end_capture(); !status) return status;
  }
  if (!is_replayed()) return Done{};
  const SeatDevice& device = devices_.of(seat_);
  return check(driver_, EntryPoint::graph_launch, driver_.launch_graph(device.graph, device.stream(kCompute)));
}

bool DeviceRank::is_replayed() const { return observer_ == nullptr && devices_.of(seat_).graph.handle != nullptr; }

std::vector<StreamNumber> DeviceRank::other_streams() const {
  std::vector<StreamNumber> streams{kCommunication};
  streams.insert(streams.end(), step_.links.begin(), step_.links.end());
  return streams;
}

Status DeviceRank::issue(const Command& command) const {
  const SeatDevice& device = devices_.of(seat_);
  const Stream stream = device.stream(command.stream);
  if (const auto* launch = std::get_if<Launch>(&command.what)) return issue(*launch, stream);
  if (const auto* product = std::get_if<Product>(&command.what)) return issue(*product, stream);
  if (const auto* call = std::get_if<DnnCall>(&command.what)) return issue(*call, stream);
  if (const auto* collective = std::get_if<Collective>(&command.what)) return issue(*collective, stream);
  if (const auto* exchange = std::get_if<Exchange>(&command.what)) return issue(*exchange, stream);
  if (const auto* fill = std::get_if<Fill>(&command.what))
    return check(driver_, EntryPoint::fill, driver_.fill(fill->to, 0, fill->bytes, stream));
  if (const auto* record = std::get_if<Record>(&command.what))
    return check(driver_, EntryPoint::event_record, driver_.event_record(device.events[record->event], stream));
  if (const auto* await = std::get_if<Await>(&command.what))
    return check(driver_, EntryPoint::stream_wait_event,
                 driver_.stream_wait_event(stream, device.events[await->event]));
  if (const auto* of_slot = std::get_if<SlotEvent>(&command.what)) {
    const SeatDevice& sender = devices_.of(of_slot->seat);
    const Event event = (of_slot->is_taken ? sender.taken : sender.filled)[of_slot->slot];
    return of_slot->records ? check(driver_, EntryPoint::event_record, driver_.event_record(event, stream))
                            : check(driver_, EntryPoint::stream_wait_event, driver_.stream_wait_event(stream, event));
  }
  return issue(std::get<Optimize>(command.what).launch, stream);
}

Status DeviceRank::issue(const Launch& launch, Stream stream) const {
  const Status status = check(driver_, EntryPoint::launch, driver_.launch(launch, stream));
  return status ? status
                : Status(add_context(std::string("the kernel '") + kernel(launch.kernel).name + "'", status.error()));
}

Status DeviceRank::issue(const Product& product, Stream stream) const {
  const Status status = check(driver_, EntryPoint::product, driver_.product(product, stream));
  return status ? status : Status(add_context("the product " + to_string(product.shape), status.error()));
}

Status DeviceRank::issue(const DnnCall& call, Stream stream) const {
  EntryPoint entry = EntryPoint::dnn_execute;
  const Code code = driver_.run_dnn(call, stream, entry);
  const Status status = check(driver_, entry, code);
  return status ? status : Status(add_context(call.graph->name, status.error()));
}

Status DeviceRank::issue(const Collective& collective, Stream stream) const {
  const Communicator group = communicator(collective.group);
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return check(driver_, EntryPoint::all_reduce,
                   driver_.all_reduce(collective.from, collective.to, collective.count, collective.dtype,
                                      collective.maximum, group, stream));
    case CollectiveKind::all_gather:
      return check(
          driver_, EntryPoint::all_gather,
          driver_.all_gather(collective.from, collective.to, collective.count, collective.dtype, group, stream));
    case CollectiveKind::reduce_scatter:
      return check(driver_, EntryPoint::reduce_scatter,
                   driver_.reduce_scatter(collective.from, collective.to, collective.count, collective.dtype,
                                          collective.maximum, group, stream));
  }
  return internal_error("there is no such collective");
}

Status DeviceRank::issue(const Exchange& exchange, Stream stream) const {
  const Communicator group = communicator(exchange.group);
  if (Status status = check(driver_, EntryPoint::group_start, driver_.group_start()); !status) return status;
  for (const Exchange::Part& part : exchange.sends) {
    if (Status status = check(driver_, EntryPoint::send, driver_.send(part.data, part.bytes, part.peer, group, stream));
        !status)
      return status;
  }
  for (const Exchange::Part& part : exchange.receives) {
    if (Status status =
            check(driver_, EntryPoint::receive, driver_.receive(part.data, part.bytes, part.peer, group, stream));
        !status)
      return status;
  }
  return check(driver_, EntryPoint::group_end, driver_.group_end());
}

// The moments are corrected for having started at zero (sdk/lib/ranks/optimizer.cpp).
Status DeviceRank::put_numbers() {
  for (const std::uint32_t parameter : step_.updated) {
    const auto steps = static_cast<double>(++taken_steps_[parameter]);
    OptimizerNumbers& numbers = numbers_[parameter];
    numbers.rate = settings_.learning_rate;
    const Optimizer optimizer = program_.training.optimizer;
    if (optimizer != Optimizer::adam && optimizer != Optimizer::adamw) continue;
    numbers.rate = settings_.learning_rate / (1 - std::pow(settings_.beta1, steps));
    numbers.correction = 1 / std::sqrt(1 - std::pow(settings_.beta2, steps));
  }
  if (step_.updated.empty()) return Done{};
  return check(
      driver_, EntryPoint::copy,
      driver_.copy(step_.block.constants() + step_.numbers, numbers_.data(), numbers_.size() * sizeof(OptimizerNumbers),
                   CopyKind::to_device, devices_.of(seat_).stream(kCompute)));
}

// The gradient's memory is another value's later.
Status DeviceRank::observe_update(const Optimize& update) {
  const Result<bool> done = wait_for(devices_.of(seat_).stream(kCompute));
  if (!done) return done.error();
  if (!*done) return internal_error("the run has stopped");
  const Result<Tensor> gradient = fetch(update.gradient.data, update.gradient.type),
                       updated = fetch(update.updated.data, update.updated.type);
  if (!gradient) return gradient.error();
  if (!updated) return updated.error();
  observer_->on_update(rank_, update.parameter, *gradient, *updated);
  return Done{};
}

Result<bool> DeviceRank::wait_for(Stream stream) const {
  for (;;) {
    const Code code = driver_.stream_query(stream);
    if (code == 0) return true;
    if (code != kNotReady) return check(driver_, EntryPoint::stream_query, code).error();
    for (const auto& [group, communicator] : devices_.of(seat_).communicators) {
      Code error = 0;
      if (Status status =
              check(driver_, EntryPoint::communicator_error, driver_.communicator_error(communicator, error));
          !status)
        return status.error();
      if (error != 0) return check(driver_, EntryPoint::communicator_error, error).error();
    }
    if (carrier_ != nullptr && !carrier_->goes_on()) return false;
    std::this_thread::yield();
  }
}

Status DeviceRank::settle() const {
  const Stream stream = devices_.of(seat_).stream(kCompute);
  const Watchdog::Watch watch =
      devices_.watchdog().watch([this] { return devices_.seat(seat_).name + " waits for copies to or from its GPU"; });
  for (;;) {
    const Code code = driver_.stream_query(stream);
    if (code != kNotReady) return check(driver_, EntryPoint::stream_query, code);
    std::this_thread::yield();
  }
}

std::string DeviceRank::where() const {
  const std::size_t at = at_;
  return devices_.seat(seat_).name +
         (at < steps_.size() ? " is at " + describe(program_, steps_[at]) : " waits for what it asked of its GPU");
}

Result<bool> DeviceRank::finish() {
  at_ = steps_.size();
  if (Status status = replay(); !status) {
    fail();
    return status.error();
  }
  std::vector<StreamNumber> streams = other_streams();
  streams.push_back(kCompute);
  for (const StreamNumber stream : streams) {
    Result<bool> done = wait_for(devices_.of(seat_).stream(stream));
    if (done && *done) continue;
    fail();
    return done;
  }
  watch_.reset();
  if (Status status = check_faults(); !status) {
    fail();
    return status.error();
  }
  staged_.clear();
  bytes_.most = std::max({bytes_.most, step_.peak_bytes, step_.device_peak_bytes});
  return true;
}

// A GPU can't refuse an index: it takes zeros for it, and says so.
Status DeviceRank::check_faults() const {
  std::vector<std::int32_t> words(step_.faults.size());
  if (words.empty()) return Done{};
  if (Status status =
          check(driver_, EntryPoint::copy,
                driver_.copy(words.data(), step_.block.constants() + step_.fault_words, words.size() * sizeof words[0],
                             CopyKind::to_host, devices_.of(seat_).stream(kCompute)));
      !status)
    return status;
  if (Status status = settle(); !status) return status;
  const auto fault = std::ranges::find_if(words, [](std::int32_t word) { return word != 0; });
  if (fault == words.end()) return Done{};
  const std::size_t step = step_.faults[static_cast<std::size_t>(fault - words.begin())];
  return bad_input(describe(program_, steps_[step]) +
                   (*fault == 1 ? ": an index, or a label, is outside of what it names"
                                : ": more tokens chose the experts of one rank than its buffer has room for; raise "
                                  "\"capacity_factor\" in [ops.experts], or set it to 0, and plan again"));
}

Result<Tensor> DeviceRank::fetch(const std::byte* from, const TensorType& type) const {
  Tensor tensor(type);
  if (tensor.bytes().empty()) return tensor;
  const Stream stream = devices_.of(seat_).stream(kCompute);
  if (Status status =
          check(driver_, EntryPoint::copy,
                driver_.copy(tensor.bytes().data(), from, tensor.bytes().size(), CopyKind::to_host, stream));
      !status)
    return status.error();
  if (Status status = settle(); !status) return status.error();
  return converted(std::move(tensor), handed_type(type).dtype);
}

Result<Tensor> DeviceRank::fetch(const Handed& handed) const {
  for (const Command& command : handed.commands) {
    if (Status status = issue(command); !status) return status.error();
  }
  return fetch(handed.seen.data, handed.seen.type);
}

Result<Tensor> DeviceRank::part(ProgramValueId id, std::int64_t microbatch) const {
  if (Status status = set_device(); !status) return status.error();
  const auto found = step_.handed.find({id, microbatch});
  Result<Tensor> part =
      found != step_.handed.end()
          ? fetch(found->second)
          : fetch(step_.block.base + arena_.offsets[program_.place(id, microbatch)], program_.local(id));
  return part ? part : Result<Tensor>(add_context(devices_.seat(seat_).name, part.error()));
}

Result<OptimizerState> DeviceRank::state(std::size_t parameter) const {
  OptimizerState state{taken_steps_[parameter], {}, {}};
  if (state.steps == 0) return state;
  if (Status status = set_device(); !status) return status.error();
  const StatePlace kept = state_place(program_, step_.block, parameter);
  for (const auto& [from, to] : {std::pair(kept.first, &state.first), std::pair(kept.second, &state.second)}) {
    if (from == nullptr) continue;
    Result<Tensor> moment = fetch(from, kept.type);
    if (!moment) return moment.error();
    *to = std::move(*moment);
  }
  return state;
}

Result<std::optional<Tensor>> DeviceRank::master(std::size_t parameter) const {
  const StatePlace kept = state_place(program_, step_.block, parameter);
  if (kept.master == nullptr) return std::optional<Tensor>();
  if (Status status = set_device(); !status) return status.error();
  Result<Tensor> master = fetch(kept.master, kept.type);
  if (!master) return master.error();
  return std::optional(std::move(*master));
}

Status DeviceRank::give_outputs() {
  if (observer_ == nullptr) return Done{};
  for (std::uint32_t i = 0; i < program_.parameters.size(); ++i) {
    if (program_.parameters[i].updated == kNoId) continue;
    const Result<Tensor> value = part(program_.parameters[i].updated, program_.order.microbatches - 1);
    if (!value) return value.error();
    observer_->on_gathered(rank_, i, *value);
  }
  for (std::uint32_t i = 0; i < program_.outputs.size(); ++i) {
    const Result<Tensor> value = part(program_.outputs[i].value, program_.outputs[i].microbatch);
    if (!value) return value.error();
    observer_->on_output(rank_, i, *value);
  }
  return Done{};
}

Status DeviceRank::end() { return of_rank(close()); }

Status DeviceRank::close() {
  carrier_ = nullptr;
  if (Status status = set_device(); !status) return status;
  for (const Command& command : step_.closing) {
    if (Status status = issue(command); !status) return status;
  }
  if (Status status = settle(); !status) return status;
  return driver_.check_device(devices_.seat(seat_).device);
}

}  // namespace meshwright::cuda
