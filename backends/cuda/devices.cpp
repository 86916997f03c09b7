#include "devices.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "meshwright/log.h"

namespace meshwright::cuda {

namespace {

// Of what fails when all is over.
void warn(const Status& status) {
  if (!status) log(LogLevel::warning, "cuda", "at the end of the run: " + status.error().message);
}

// Numbers of eight bytes: of each group its stream, how many seats it has, and these.
std::string packed_groups(const std::set<GroupKey>& groups) {
  std::string text;
  const auto put = [&](std::int64_t number) { text.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const GroupKey& group : groups) {
    put(static_cast<std::int64_t>(group.stream));
    put(static_cast<std::int64_t>(group.seats.size()));
    for (const std::int64_t seat : group.seats) put(seat);
  }
  return text;
}

// Nothing: it is none.
std::optional<GroupKey> take_group(std::string_view& text) {
  const auto take = [&]() -> std::int64_t {
    std::int64_t number = 0;
    if (text.size() < sizeof number) return -1;
    std::memcpy(&number, text.data(), sizeof number);
    text.remove_prefix(sizeof number);
    return number;
  };
  const std::int64_t stream = take(), count = take();
  if (stream < 0 || count < 1 || static_cast<std::size_t>(count) > text.size() / sizeof count) return std::nullopt;
  GroupKey group{static_cast<StreamNumber>(stream), {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t seat = take();
    if (seat <= (i == 0 ? -1 : group.seats.back())) return std::nullopt;  // they ascend
    group.seats.push_back(seat);
  }
  return group;
}

}  // namespace

Devices::~Devices() {
  const Watchdog::Watch watch = watchdog_.watch([] { return std::string("the run lets go of its devices"); });
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (driver_.set_device(here_[i].device) != 0) continue;
    SeatDevice& device = devices_[i];
    for (const auto& [group, communicator] : device.communicators) {
      if (communicator.handle != nullptr && aborted_[i] == 0)
        warn(check(driver_, EntryPoint::destroy_communicator, driver_.destroy_communicator(communicator)));
    }
    if (device.graph.handle != nullptr)
      warn(check(driver_, EntryPoint::graph_forget, driver_.destroy_graph(device.graph)));
    std::vector<Event> events{device.gathered};
    for (const std::vector<Event>& each : {device.events, device.filled, device.taken})
      events.insert(events.end(), each.begin(), each.end());
    for (const Event event : events) {
      if (event.handle != nullptr) warn(check(driver_, EntryPoint::event_destroy, driver_.event_destroy(event)));
    }
    std::vector<Stream> streams(std::begin(device.streams), std::end(device.streams));
    for (const auto& [number, stream] : device.links) streams.push_back(stream);
    for (const Stream stream : streams) {
      if (stream.handle != nullptr) warn(check(driver_, EntryPoint::stream_destroy, driver_.stream_destroy(stream)));
    }
    EntryPoint entry = EntryPoint::products_destroy;
    Code code = driver_.release_products(entry);
    warn(check(driver_, entry, code));
    code = driver_.release_dnn(entry);
    warn(check(driver_, entry, code));
    if (device.memory != nullptr) warn(check(driver_, EntryPoint::release, driver_.release(device.memory)));
  }
}

Status Devices::open(std::vector<Seat> here) {
  int found = 0;
  if (const Status status = check(driver_, EntryPoint::get_device_count, driver_.get_device_count(found)); !status)
    return add_context("no device", status.error());
  std::set<int> wanted;
  for (const Seat& seat : here) wanted.insert(seat.device);
  if (wanted.size() == 1 && *wanted.begin() > 0 && *wanted.begin() >= found) {
    return plugin_failed("no device: " + here.front().name + " is to have GPU " + std::to_string(*wanted.begin()) +
                         " of its machine, by its local rank, and this process sees " + std::to_string(found) +
                         "; start no more processes on a machine than it has GPUs");
  }
  if (*wanted.rbegin() >= found) {
    return plugin_failed("no device: the plan has " + std::to_string(wanted.size()) +
                         " ranks, a GPU each, and this machine has " + std::to_string(found) +
                         "; plan for a cluster of as many");
  }
  here_ = std::move(here);
  devices_.resize(here_.size());
  aborted_.resize(here_.size(), 0);
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (Status status = set(here_[i].number); !status) return status;
    for (Stream& stream : devices_[i].streams) {
      if (Status status = check(driver_, EntryPoint::stream_create, driver_.stream_create(stream)); !status)
        return status;
    }
    if (wanted.erase(here_[i].device) == 0) continue;  // another seat's device has its kernels
    EntryPoint entry = EntryPoint::load_module;
    const Code code = driver_.load_kernels(entry);
    if (Status status = check(driver_, entry, code); !status) return status;
  }
  return Done{};
}

Status Devices::set(std::int64_t seat) {
  return check(driver_, EntryPoint::set_device, driver_.set_device(this->seat(seat).device));
}

Status Devices::make_communicators(const std::set<GroupKey>& groups) {
  for (const GroupKey& group : groups) {
    UniqueId id{};
    if (Status status = check(driver_, EntryPoint::get_unique_id, driver_.get_unique_id(id)); !status) return status;
    if (Status status = make_communicator(group, id); !status) return status;
  }
  return Done{};
}

// A seat may have nothing to send or to receive in a group, and so not know of it. All make their groups' communicators
// in the order of the keys: of those that are not made yet the first one is the next one of all of its seats, so that
// none waits for ever.
Status Devices::make_communicators(const std::set<GroupKey>& groups, const std::vector<std::int64_t>& process_of,
                                   const GiveAll& give_all) {
  std::set<GroupKey> all;
  for (const std::string& text : give_all("groups", packed_groups(groups))) {
    for (std::string_view rest = text; !rest.empty();) {
      std::optional<GroupKey> group = take_group(rest);
      if (!group || group->seats.back() >= static_cast<std::int64_t>(process_of.size()))
        return internal_error("the groups that another process gave are none");
      all.insert(std::move(*group));
    }
  }
  std::string made;
  for (const GroupKey& group : all) {
    if (!is_here(group.seats.front())) continue;
    UniqueId id{};
    if (Status status = check(driver_, EntryPoint::get_unique_id, driver_.get_unique_id(id)); !status) return status;
    made.append(id.data(), id.size());
  }
  const std::vector<std::string> ids = give_all("ids", made);
  std::map<std::size_t, std::size_t> taken;  // by process
  for (const GroupKey& group : all) {
    const auto leader = static_cast<std::size_t>(process_of[static_cast<std::size_t>(group.seats.front())]);
    UniqueId id{};
    std::size_t& at = taken[leader];
    if (ids[leader].size() < at + id.size())
      return internal_error("process " + std::to_string(leader) + " gave fewer ids than it has first seats of groups");
    std::memcpy(id.data(), ids[leader].data() + at, id.size());
    at += id.size();
    if (std::ranges::none_of(group.seats, [this](std::int64_t seat) { return is_here(seat); })) continue;
    if (Status status = make_communicator(group, id); !status) return status;
  }
  return Done{};
}

// All of its seats that are here in one go, since each waits for the others.
Status Devices::make_communicator(const GroupKey& group, const UniqueId& id) {
  const Watchdog::Watch watch = watchdog_.watch([&] {
    std::string said = "the ranks that are here meet the others of a communicator of the ranks";
    for (const std::int64_t seat : group.seats) said += " " + std::to_string(seat);
    return said;
  });
  if (Status status = check(driver_, EntryPoint::group_start, driver_.group_start()); !status) return status;
  for (std::size_t i = 0; i < group.seats.size(); ++i) {
    if (!is_here(group.seats[i])) continue;
    Communicator& communicator = devices_[index(group.seats[i])].communicators[group];
    if (Status status = set(group.seats[i]); !status) return status;
    const Code code =
        driver_.init_communicator(communicator, static_cast<int>(group.seats.size()), id, static_cast<int>(i));
    if (Status status = check(driver_, EntryPoint::init_communicator, code); !status) return status;
  }
  return check(driver_, EntryPoint::group_end, driver_.group_end());
}

Status Devices::make_memory(std::int64_t seat, const RankStep& step, const std::string& what_is_large) {
  SeatDevice& device = devices_[index(seat)];
  if (Status status = set(seat); !status) return status;
  const std::size_t bytes = step.block.bytes();
  if (Status status = check(driver_, EntryPoint::allocate, driver_.allocate(device.memory, bytes)); !status) {
    return add_context(
        this->seat(seat).name + " needs " + std::to_string(bytes) + " bytes: " +
            std::to_string(step.block.arena_bytes) + " for values, " + std::to_string(step.block.state_bytes) +
            " for the optimizer, " + std::to_string(bytes - step.block.arena_bytes - step.block.state_bytes) +
            " for constants and copies; " + what_is_large + "; plan with a smaller --set search.memory_budget",
        status.error());
  }
  device.events.resize(step.events);
  device.filled.resize(step.block.slot_bytes.size());
  device.taken.resize(step.block.slot_bytes.size());
  for (std::vector<Event>* events : {&device.events, &device.filled, &device.taken}) {
    for (Event& event : *events) {
      if (Status status = check(driver_, EntryPoint::event_create, driver_.event_create(event)); !status) return status;
    }
  }
  if (Status status = check(driver_, EntryPoint::event_create, driver_.event_create(device.gathered)); !status)
    return status;
  for (const StreamNumber link : step.links) {
    if (Status status = check(driver_, EntryPoint::stream_create, driver_.stream_create(device.links[link])); !status)
      return status;
  }
  return Done{};
}

Status Devices::load_chains(const std::string& source, std::size_t count) {
  std::set<int> loaded;
  for (const Seat& seat : here_) {
    if (!loaded.insert(seat.device).second) continue;
    if (Status status = set(seat.number); !status) return status;
    EntryPoint entry = EntryPoint::compiler_compile;
    const Code code = driver_.load_chains(source, count, entry);
    if (Status status = check(driver_, entry, code); !status) return status;
  }
  return Done{};
}

// What ended the run is said anyway; that this failed too is a warning.
void Devices::abort(std::int64_t seat) {
  char& aborted = aborted_[index(seat)];
  if (aborted != 0) return;
  aborted = 1;
  for (const auto& [group, communicator] : devices_[index(seat)].communicators) {
    warn(check(driver_, EntryPoint::abort_communicator, driver_.abort_communicator(communicator)));
  }
}

}  // namespace meshwright::cuda
