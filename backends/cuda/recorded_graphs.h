// Graphs of a recording driver: what was asked for while streams were captured.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "driver.h"
#include "recorded_streams.h"
#include "trace.h"

namespace meshwright::cuda {

// What is asked of a stream, and how the proof sees it.
struct RecordedCall {
  RecordedStream* stream = nullptr;
  Job job;
  TraceEntry entry;
};

RecordedCall event_call(JobKind kind, RecordedStream& stream, RecordedEvent& event);

// Codes are those of CUDA.
class RecordedGraph {
 public:
  explicit RecordedGraph(RecordedStream& origin) : origin_(&origin) { seen_[&origin] = {}; }

  // Whether it is being captured, and a call on this stream is a part of it.
  [[nodiscard]] bool has(const RecordedStream& stream) const { return is_open_ && seen_.contains(&stream); }
  [[nodiscard]] bool takes(const RecordedCall& call) const;
  Code add(RecordedCall call);
  // An event that is recorded elsewhere is none of it any more.
  void forget(const RecordedEvent& event) { recorded_.erase(&event); }
  // All streams must have come back to the first one.
  Code end(const RecordedStream& stream);

  // What a launch on a stream is: calls on streams and with events of the graph's own, which are made once; what was on
  // the captured streams before is nothing to them.
  std::vector<RecordedCall> launched(RecordedStream& stream, const std::function<RecordedStream&()>& make_stream,
                                     const std::function<RecordedEvent&()>& make_event);

 private:
  using Seen = std::map<const RecordedStream*, std::size_t>;  // how many calls of each stream it follows

  RecordedStream* origin_;
  bool is_open_ = true;
  std::vector<RecordedCall> calls_;
  std::map<const RecordedStream*, Seen> seen_;
  std::map<const RecordedEvent*, Seen> recorded_;
  std::map<const RecordedStream*, RecordedStream*> streams_;
  std::map<const RecordedEvent*, RecordedEvent*> events_;
  RecordedEvent *begun_ = nullptr, *ended_ = nullptr;
};

}  // namespace meshwright::cuda
