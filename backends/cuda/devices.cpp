#include "devices.h"

#include <string>

#include "meshwright/log.h"

namespace meshwright::cuda {

namespace {

// Of what fails when all is over.
void warn(const Status& status) {
  if (!status) log(LogLevel::warning, "cuda", "at the end of the run: " + status.error().message);
}

}  // namespace

Devices::~Devices() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (driver_.set_device(static_cast<int>(rank)) != 0) continue;
    RankDevice& device = ranks_[rank];
    for (const auto& [group, communicator] : device.communicators) {
      if (communicator.handle != nullptr && aborted_[rank] == 0)
        warn(check(driver_, EntryPoint::destroy_communicator, driver_.destroy_communicator(communicator)));
    }
    for (const Event event : device.events) {
      if (event.handle != nullptr) warn(check(driver_, EntryPoint::event_destroy, driver_.event_destroy(event)));
    }
    for (const Stream stream : device.streams) {
      if (stream.handle != nullptr) warn(check(driver_, EntryPoint::stream_destroy, driver_.stream_destroy(stream)));
    }
    EntryPoint entry = EntryPoint::products_destroy;
    const Code code = driver_.release_products(entry);
    warn(check(driver_, entry, code));
    if (device.memory != nullptr) warn(check(driver_, EntryPoint::release, driver_.release(device.memory)));
  }
}

Status Devices::open(std::int64_t ranks) {
  int found = 0;
  if (const Status status = check(driver_, EntryPoint::get_device_count, driver_.get_device_count(found)); !status)
    return add_context("no device", status.error());
  if (found < ranks) {
    return plugin_failed("no device: the plan has " + std::to_string(ranks) +
                         " ranks, a GPU each, and this machine has " + std::to_string(found) +
                         "; plan for a cluster of as many");
  }
  ranks_.resize(static_cast<std::size_t>(ranks));
  aborted_.resize(static_cast<std::size_t>(ranks), 0);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (Status status = set(rank); !status) return status;
    for (Stream& stream : ranks_[static_cast<std::size_t>(rank)].streams) {
      if (Status status = check(driver_, EntryPoint::stream_create, driver_.stream_create(stream)); !status)
        return status;
    }
    EntryPoint entry = EntryPoint::load_module;
    const Code code = driver_.load_kernels(entry);
    if (Status status = check(driver_, entry, code); !status) return status;
  }
  return Done{};
}

Status Devices::set(std::int64_t rank) {
  return check(driver_, EntryPoint::set_device, driver_.set_device(static_cast<int>(rank)));
}

Status Devices::make_communicators(const std::set<GroupKey>& groups) {
  for (const GroupKey& group : groups) {
    if (Status status = make_communicator(group); !status) return status;
  }
  return Done{};
}

// All of its ranks in one go, since each waits for the others.
Status Devices::make_communicator(const GroupKey& group) {
  UniqueId id{};
  if (Status status = check(driver_, EntryPoint::get_unique_id, driver_.get_unique_id(id)); !status) return status;
  if (Status status = check(driver_, EntryPoint::group_start, driver_.group_start()); !status) return status;
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    Communicator& communicator = ranks_[static_cast<std::size_t>(group.ranks[i])].communicators[group];
    if (Status status = set(group.ranks[i]); !status) return status;
    const Code code =
        driver_.init_communicator(communicator, static_cast<int>(group.ranks.size()), id, static_cast<int>(i));
    if (Status status = check(driver_, EntryPoint::init_communicator, code); !status) return status;
  }
  return check(driver_, EntryPoint::group_end, driver_.group_end());
}

Status Devices::make_memory(std::int64_t rank, const RankStep& step, const std::string& what_is_large) {
  RankDevice& device = ranks_[static_cast<std::size_t>(rank)];
  if (Status status = set(rank); !status) return status;
  const std::size_t bytes = step.block.bytes();
  if (Status status = check(driver_, EntryPoint::allocate, driver_.allocate(device.memory, bytes)); !status) {
    return add_context(
        "rank " + std::to_string(rank) + " needs " + std::to_string(bytes) + " bytes: " +
            std::to_string(step.block.arena_bytes) + " for values, " + std::to_string(step.block.state_bytes) +
            " for the optimizer, " + std::to_string(bytes - step.block.arena_bytes - step.block.state_bytes) +
            " for constants and copies; " + what_is_large + "; plan with a smaller --set search.memory_budget",
        status.error());
  }
  device.events.resize(step.events);
  for (Event& event : device.events) {
    if (Status status = check(driver_, EntryPoint::event_create, driver_.event_create(event)); !status) return status;
  }
  return Done{};
}

// What ended the run is said anyway; that this failed too is a warning.
void Devices::abort(std::int64_t rank) {
  char& aborted = aborted_[static_cast<std::size_t>(rank)];
  if (aborted != 0) return;
  aborted = 1;
  for (const auto& [group, communicator] : ranks_[static_cast<std::size_t>(rank)].communicators) {
    warn(check(driver_, EntryPoint::abort_communicator, driver_.abort_communicator(communicator)));
  }
}

}  // namespace meshwright::cuda
