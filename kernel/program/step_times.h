// The time lines of one program, which planning compares. Private to the kernel and to planning.
#pragma once

#include <memory>

#include "meshwright/timeline.h"

namespace meshwright {

// Time lines in buckets of several sizes, and with frees placed in several ways: what does not depend on either is found once. Each is the one
// that make_timeline makes.
class MESHWRIGHT_API StepTimes {
 public:
  // The program and the profile must outlive this. Errors: those of make_timeline.
  static Result<StepTimes> make(const Program& program, const OpTable& ops, const CostProfile& profile);
  StepTimes(StepTimes&&) noexcept;
  ~StepTimes();

  // In buckets of the size that the program has now.
  [[nodiscard]] Result<Timeline> draw();
  // To be called once place_frees has placed the program's frees and waits otherwise, and has changed nothing else.
  void frees_were_placed();

 private:
  class Impl;
  explicit StepTimes(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshwright
