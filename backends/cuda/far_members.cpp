#include "far_members.h"

#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>

namespace meshwright::cuda {

namespace {

constexpr std::chrono::microseconds kLook{100};

struct FarId {
  std::uint64_t channel = 0;
  std::int32_t leader = 0;
};

template <class T>
std::string packed(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class T>
bool unpack(const std::string& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  return true;
}

// What all ranks of a collective must have been asked for alike.
struct Asked {
  std::uint32_t kind = 0, dtype = 0;
  std::uint64_t count = 0, maximum = 0;
  bool operator==(const Asked&) const = default;
};
Asked asked(const Job& job) {
  return {static_cast<std::uint32_t>(job.kind), static_cast<std::uint32_t>(job.dtype), job.count,
          job.maximum ? 1U : 0U};
}

int process_of(const Job& job, int rank) { return job.communicator->group->processes[static_cast<std::size_t>(rank)]; }
std::string as_text(const std::byte* bytes, std::size_t count) { return {reinterpret_cast<const char*>(bytes), count}; }

void post_part(Job& job) {
  const RecordedGroup& group = *job.communicator->group;
  if (job.kind == JobKind::exchange) {
    job.arrived.resize(job.receives.size());
    for (const RecordedMessage& message : job.sends)
      group.mail->post(process_of(job, message.peer), group.channel, as_text(message.data, message.bytes));
    return;
  }
  job.arrived.resize(group.members.size());
  const std::string part = packed(asked(job)) + as_text(job.from, given_bytes(job));
  for (int rank = 0; rank < static_cast<int>(group.members.size()); ++rank) {
    if (rank != job.communicator->rank) group.mail->post(process_of(job, rank), group.channel, part);
  }
}

}  // namespace

UniqueId make_far_id(const Mail& mail, std::uint64_t number) {
  UniqueId id{};
  const FarId far{(static_cast<std::uint64_t>(mail.own_rank()) << 32U) | number, mail.own_rank()};
  std::memcpy(id.data(), &far, sizeof far);
  return id;
}

// The first process of each to come says so to the one that made the id, which tells all where each is.
bool meet_far(RecordedGroup& group, Mail& mail, const UniqueId& id, int ranks, int rank) {
  FarId far;
  std::memcpy(&far, id.data(), sizeof far);
  group.mail = &mail;
  group.channel = far.channel;
  group.processes.assign(static_cast<std::size_t>(ranks), -1);
  group.processes[static_cast<std::size_t>(rank)] = mail.own_rank();
  if (far.leader != mail.own_rank()) {
    mail.post(far.leader, far.channel, packed(rank));
    std::optional<std::string> table;
    while (!(table = mail.take(far.leader, far.channel))) std::this_thread::sleep_for(kLook);
    if (table->size() != group.processes.size() * sizeof(int)) return false;
    std::memcpy(group.processes.data(), table->data(), table->size());
    return group.processes[static_cast<std::size_t>(rank)] == mail.own_rank();
  }
  for (int missing = ranks - 1; missing > 0;) {
    const std::optional<Mail::Letter> letter = mail.take(far.channel);
    int other = 0;
    if (!letter) {
      std::this_thread::sleep_for(kLook);
      continue;
    }
    if (!unpack(letter->bytes, other) || other < 0 || other >= ranks) return false;
    if (int& process = group.processes[static_cast<std::size_t>(other)]; process != -1)
      return false;
    else
      process = letter->from;
    --missing;
  }
  const std::string table =
      as_text(reinterpret_cast<const std::byte*>(group.processes.data()), group.processes.size() * sizeof(int));
  for (const int process : group.processes) {
    if (process != mail.own_rank()) mail.post(process, far.channel, table);
  }
  return true;
}

bool have_come(Job& job) {
  if (!job.is_posted) {
    job.is_posted = true;
    post_part(job);
  }
  const RecordedGroup& group = *job.communicator->group;
  std::set<int> missing;  // peers of which nothing is there: what they send later is for what comes first
  for (std::size_t i = 0; i < job.arrived.size(); ++i) {
    const int peer = job.kind == JobKind::exchange ? job.receives[i].peer : static_cast<int>(i);
    if (job.arrived[i] || missing.contains(peer)) continue;
    if (job.kind != JobKind::exchange && peer == job.communicator->rank) continue;
    job.arrived[i] = group.mail->take(process_of(job, peer), group.channel);
    if (!job.arrived[i]) missing.insert(peer);
  }
  return missing.empty();
}

bool take_from_far(const Job& job) {
  if (job.kind == JobKind::exchange) {
    for (std::size_t i = 0; i < job.receives.size(); ++i) {
      if (job.arrived[i]->size() != job.receives[i].bytes) return false;
      if (!job.arrived[i]->empty()) std::memcpy(job.receives[i].data, job.arrived[i]->data(), job.arrived[i]->size());
    }
    return true;
  }
  std::vector<const std::byte*> given;
  for (std::size_t rank = 0; rank < job.arrived.size(); ++rank) {
    const std::optional<std::string>& part = job.arrived[rank];
    if (!part) {
      given.push_back(job.from);
      continue;
    }
    Asked other;
    if (!unpack(*part, other) || other != asked(job) || part->size() != sizeof other + given_bytes(job)) return false;
    given.push_back(reinterpret_cast<const std::byte*>(part->data()) + sizeof other);
  }
  take_own(job, combined(job, given));
  return true;
}

}  // namespace meshwright::cuda
