// Processes that send to each other, one on each device: what links are measured with (`meshwright detect`).
//
// Every rank makes the same calls in the same order with the same arguments, and gets the same answers. A rank that a call gives nothing to do
// waits in it, and leaves processor and links to those that are measured. A rank that can't go on ends all of them, after it has said why on
// standard error: the others would wait for it without end, so no call fails on one rank alone. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"

namespace meshwright {

class MESHWRIGHT_API Transport {
 public:
  virtual ~Transport();  // leaves the ranks, as every one of them does

  [[nodiscard]] int ranks() const { return do_ranks(); }
  [[nodiscard]] int rank() const { return do_rank(); }  // from 0

  // Mean seconds of a message of `bytes` from one rank to the other and one back, of `count` that follow each other. What has to be set up before
  // the first message of a pair is not counted. Errors of this and the next two, on all ranks alike: internal for ranks that do not exist or
  // are the same, for no bytes and no count; plugin_failed for an answer that is no number of seconds.
  Result<double> round_trip_seconds(int first, int second, std::int64_t bytes, std::int64_t count);

  // Mean seconds of a message of `bytes`, of `count` that are sent without waiting for one another, until the last is there.
  Result<double> message_seconds(int from, int to, std::int64_t bytes, std::int64_t count);

  // Mean seconds of an all-reduce (a sum of float32) of `bytes` among the ranks of `group`, ascending, at least two, of `count` that follow each
  // other: of the rank that takes longest. `bytes` is a multiple of 4. The other ranks send nothing.
  Result<double> all_reduce_seconds(const std::vector<int>& group, std::int64_t bytes, std::int64_t count);

  // What rank 0 gave.
  int from_first(int value) { return do_from_first(value); }

 private:
  [[nodiscard]] virtual int do_ranks() const = 0;
  [[nodiscard]] virtual int do_rank() const = 0;
  virtual double do_round_trip_seconds(int first, int second, std::int64_t bytes, std::int64_t count) = 0;
  virtual double do_message_seconds(int from, int to, std::int64_t bytes, std::int64_t count) = 0;
  virtual double do_all_reduce_seconds(const std::vector<int>& group, std::int64_t bytes, std::int64_t count) = 0;
  virtual int do_from_first(int value) = 0;
};

}  // namespace meshwright
