#include "recorded_streams.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "combine.h"
#include "far_members.h"
#include "split_mix.h"

namespace meshwright::cuda {

namespace {

// Results may lie where something comes from, so that all is read first. False: they were asked for different things.
bool collect(const std::vector<RecordedStream*>& streams) {
  const Job& first = streams.front()->jobs.front();
  std::vector<const std::byte*> given;
  for (const RecordedStream* stream : streams) {
    const Job& job = stream->jobs.front();
    if (job.count != first.count || job.dtype != first.dtype || job.maximum != first.maximum) return false;
    given.push_back(job.from);
  }
  const std::vector<std::byte> made = combined(first, given);
  for (const RecordedStream* stream : streams) take_own(stream->jobs.front(), made);
  return true;
}

// What one job has of a peer, in order.
std::vector<const RecordedMessage*> with_peer(const std::vector<RecordedMessage>& messages, int peer) {
  std::vector<const RecordedMessage*> found;
  for (const RecordedMessage& message : messages) {
    if (message.peer == peer) found.push_back(&message);
  }
  return found;
}

// The n-th message to a peer is the n-th that this one receives. False: it receives others.
bool hand_over(const std::vector<RecordedStream*>& streams) {
  for (const RecordedStream* from : streams) {
    const Job& sender = from->jobs.front();
    for (const RecordedStream* to : streams) {
      const Job& receiver = to->jobs.front();
      const auto sent = with_peer(sender.sends, receiver.communicator->rank);
      const auto received = with_peer(receiver.receives, sender.communicator->rank);
      if (sent.size() != received.size()) return false;
      for (std::size_t i = 0; i < sent.size(); ++i) {
        if (sent[i]->bytes != received[i]->bytes) return false;
        std::memcpy(received[i]->data, sent[i]->data, sent[i]->bytes);
      }
    }
  }
  return true;
}

}  // namespace

std::size_t given_bytes(const Job& job) {
  const std::size_t bytes = job.count * static_cast<std::size_t>(size_bytes(job.dtype));
  return job.kind == JobKind::reduce_scatter ? bytes * job.communicator->group->members.size() : bytes;
}

std::vector<std::byte> combined(const Job& job, const std::vector<const std::byte*>& given) {
  const std::size_t bytes = given_bytes(job);
  std::vector<std::byte> made;
  for (const std::byte* one : given) {
    if (job.kind == JobKind::all_gather || made.empty())
      made.insert(made.end(), one, one + bytes);
    else
      combine_for(job.dtype, job.maximum)(made.data(), one, bytes / static_cast<std::size_t>(size_bytes(job.dtype)));
  }
  return made;
}

void take_own(const Job& job, const std::vector<std::byte>& made) {
  if (made.empty()) return;
  const bool scatters = job.kind == JobKind::reduce_scatter;
  const std::size_t bytes = scatters ? made.size() / job.communicator->group->members.size() : made.size();
  std::memcpy(job.to, made.data() + (scatters ? bytes * static_cast<std::size_t>(job.communicator->rank) : 0), bytes);
}

void RecordedStreams::advance() {
  std::vector<RecordedStream*> ready;
  for (RecordedStream& stream : streams_) {
    if (!stream.jobs.empty() && !stream.failed && is_ready(stream)) ready.push_back(&stream);
  }
  if (ready.empty()) return;
  random_ += kSplitMixStep;
  happen(*ready[split_mix(random_) % ready.size()]);
}

bool RecordedStreams::is_ready(RecordedStream& stream) {
  Job& job = stream.jobs.front();
  if (job.kind == JobKind::wait) return job.record == 0 || job.event->done[job.record - 1];
  if (job.communicator != nullptr && job.communicator->group->mail != nullptr)
    return !job.communicator->aborted && have_come(job);
  return job.communicator == nullptr || !together(stream).empty();
}

RecordedStream* RecordedStreams::stream_at(const RecordedCommunicator* member) {
  for (RecordedStream& stream : streams_) {
    if (!stream.jobs.empty() && stream.jobs.front().communicator == member) return &stream;
  }
  return nullptr;
}

std::vector<RecordedStream*> RecordedStreams::together(RecordedStream& stream) {
  const JobKind kind = stream.jobs.front().kind;
  const RecordedGroup& group = *stream.jobs.front().communicator->group;
  std::vector<RecordedStream*> streams;
  const auto comes = [&](const RecordedCommunicator* member) {
    RecordedStream* at = member == nullptr || member->aborted ? nullptr : stream_at(member);
    if (at == nullptr || at->jobs.front().kind != kind) return false;
    if (std::ranges::find(streams, at) == streams.end()) streams.push_back(at);
    return true;
  };
  if (kind != JobKind::exchange) {
    const bool all = std::ranges::all_of(group.members, comes);
    return all ? streams : std::vector<RecordedStream*>{};
  }
  streams.push_back(&stream);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Job& job = streams[i]->jobs.front();
    const auto peers_come = [&](const std::vector<RecordedMessage>& own, std::vector<RecordedMessage> Job::*theirs) {
      return std::ranges::all_of(own, [&](const RecordedMessage& message) {
        const RecordedCommunicator* peer = group.members[static_cast<std::size_t>(message.peer)];
        const auto of_this = [&](const RecordedMessage& other) { return other.peer == job.communicator->rank; };
        return comes(peer) && std::ranges::any_of(stream_at(peer)->jobs.front().*theirs, of_this);
      });
    };
    if (!peers_come(job.sends, &Job::receives) || !peers_come(job.receives, &Job::sends)) return {};
  }
  return streams;
}

void RecordedStreams::happen(RecordedStream& stream) {
  Job& job = stream.jobs.front();
  if (job.kind == JobKind::record) job.event->done[job.record - 1] = true;
  if (job.kind == JobKind::work && !job.run()) stream.failed = true;
  if (job.communicator == nullptr) {
    stream.jobs.pop_front();
    return;
  }
  if (job.communicator->group->mail != nullptr) {
    stream.failed = !take_from_far(job);
    return stream.jobs.pop_front();
  }
  const std::vector<RecordedStream*> streams = together(stream);
  const bool agree = job.kind == JobKind::exchange ? hand_over(streams) : collect(streams);
  for (RecordedStream* each : streams) each->failed = each->failed || !agree;
  for (RecordedStream* each : streams) each->jobs.pop_front();
}

}  // namespace meshwright::cuda
