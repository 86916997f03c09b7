// When each instruction of a program runs on a rank: all ranks of a mesh do the same at the same time, on two streams. The only
// simulation of a step: what a plan says of its step, and what `simulate` draws.
//
// What is on the compute stream runs one after the other, and so does what is on the communication stream: each of these is issued
// when all computing before it in the program is done, so that a gather that stands ahead of ops overlaps with them. Nothing
// starts before the host has issued it, which issues one after the other and waits for nothing: a step of small kernels takes as
// long as the host. What computes while the communication stream is at work takes longer by the device's computing_stretch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/op.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/ticks.h"

namespace meshwright {

struct Span {
  Occurrence at;
  Stream stream = Stream::compute;
  Ticks start = 0;
  Ticks ticks = 0;

  [[nodiscard]] Ticks end() const { return start + ticks; }
  [[nodiscard]] double start_seconds() const { return to_seconds(start); }
  [[nodiscard]] double seconds() const { return to_seconds(ticks); }
};

struct Timeline {
  std::vector<Span> spans;  // in the order of the program
  double step_seconds = 0;
  // Of the communication stream: all that runs on it, and how long computing, and at the end the updates, stand still for it.
  double communication_seconds = 0;
  double waits_before_updates = 0;
  double waits_at_end = 0;
  double host_seconds = 0;     // in which the host issues the step
  double waits_for_host = 0;   // how long computing stands still for the host alone
  double forward_seconds = 0;  // of the step: by how much forwards bring on the later of the host and computing
};

// What is asked about each instruction of a finished program that computes, for clocks to answer again and again.
MESHWRIGHT_API std::vector<Work> works_of(const Program& program, const OpTable& ops);

// What one instruction of a finished program takes. Errors: bad_input if a pass is left to be run.
MESHWRIGHT_API Result<Ticks> instruction_ticks(const Program& program, const Instruction& instruction, const OpTable& ops, const CostProfile& profile);

enum class Detail : std::uint8_t {
  sums,   // spans of the repetitions in which a steady state was reached are enough: the sums are those of the whole step
  spans,  // of every occurrence
};

// The sums are the same ones, tick by tick, with either detail.
MESHWRIGHT_API Result<Timeline> make_timeline(const Program& program, const OpTable& ops, const CostProfile& profile, Detail detail = Detail::sums);
MESHWRIGHT_API Result<Timeline> make_timeline(const Program& program, const std::vector<Work>& works, const CostProfile& profile, Detail detail = Detail::sums);

// Time lines of one program in buckets of several sizes (Program::bucket_bytes), sums only: what comes before the first gradient is reduced is drawn once.
class MESHWRIGHT_API BucketTimelines {
 public:
  // The program and the profile outlive this, and nothing of the program but the size of its buckets changes. Errors: those of instruction_ticks.
  static Result<BucketTimelines> make(const Program& program, const std::vector<Work>& works, const CostProfile& profile);
  BucketTimelines(BucketTimelines&&) noexcept;
  ~BucketTimelines();

  // As make_timeline makes it, in buckets of the size that the program has now.
  [[nodiscard]] Result<Timeline> draw() const;

 private:
  class Impl;
  explicit BucketTimelines(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshwright
