#include "recorded_graphs.h"

#include <algorithm>
#include <utility>

namespace meshwright::cuda {

namespace {

constexpr Code kUnmatched = 903, kUnjoined = 904, kIsolated = 905;  // cudaErrorStreamCapture...

}  // namespace

RecordedCall event_call(JobKind kind, RecordedStream& stream, RecordedEvent& event) {
  Job job;
  job.kind = kind;
  job.event = &event;
  const TraceKind seen = kind == JobKind::record ? TraceKind::record : TraceKind::wait;
  return {&stream, std::move(job), {seen, stream.number, event.number, "", {}, {}}};
}

bool RecordedGraph::takes(const RecordedCall& call) const {
  return has(*call.stream) || (is_open_ && call.job.kind == JobKind::wait && recorded_.contains(call.job.event));
}

Code RecordedGraph::add(RecordedCall call) {
  Seen& seen = seen_[call.stream];
  if (call.job.kind == JobKind::wait) {
    const auto found = recorded_.find(call.job.event);
    if (found == recorded_.end()) return kIsolated;
    for (const auto& [stream, calls] : found->second) seen[stream] = std::max(seen[stream], calls);
  } else {
    ++seen[call.stream];
  }
  if (call.job.kind == JobKind::record) recorded_[call.job.event] = seen;
  calls_.push_back(std::move(call));
  return 0;
}

Code RecordedGraph::end(const RecordedStream& stream) {
  if (&stream != origin_ || !is_open_) return kUnmatched;
  is_open_ = false;
  const Seen& at_end = seen_[origin_];
  const bool is_joined = std::ranges::all_of(seen_, [&](const auto& each) {
    const auto own = each.second.find(each.first), followed = at_end.find(each.first);
    return own == each.second.end() || (followed != at_end.end() && followed->second >= own->second);
  });
  return is_joined ? 0 : kUnjoined;
}

std::vector<RecordedCall> RecordedGraph::launched(RecordedStream& stream,
                                                  const std::function<RecordedStream&()>& make_stream,
                                                  const std::function<RecordedEvent&()>& make_event) {
  const auto own_stream = [&](const RecordedStream* captured) -> RecordedStream& {
    RecordedStream*& own = streams_[captured];
    if (own == nullptr) own = &make_stream();
    return *own;
  };
  const auto own_event = [&](const RecordedEvent* captured) -> RecordedEvent& {
    RecordedEvent*& own = events_[captured];
    if (own == nullptr) own = &make_event();
    return *own;
  };
  if (begun_ == nullptr) begun_ = &make_event();
  if (ended_ == nullptr) ended_ = &make_event();
  RecordedStream& origin = own_stream(origin_);
  std::vector<RecordedCall> calls{event_call(JobKind::record, stream, *begun_),
                                  event_call(JobKind::wait, origin, *begun_)};
  for (const RecordedCall& captured : calls_) {
    RecordedCall& call = calls.emplace_back(captured);
    call.stream = &own_stream(captured.stream);
    call.entry.stream = call.stream->number;
    if (captured.job.event == nullptr) continue;
    call.job.event = &own_event(captured.job.event);
    call.entry.event = call.job.event->number;
  }
  calls.push_back(event_call(JobKind::record, origin, *ended_));
  calls.push_back(event_call(JobKind::wait, stream, *ended_));
  return calls;
}

}  // namespace meshwright::cuda
