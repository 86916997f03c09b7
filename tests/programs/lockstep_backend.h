// A second way to run a program, as plain as can be: one thread, all ranks after one another at each instruction,
// collectives element by element. What the backend `reference` does with threads is held against it, and random plans
// run on it, because a failure in it is easy to look at.
#pragma once

#include "meshwright/backend.h"

namespace meshwright::test {

class LockstepBackend final : public Backend {
 private:
  Result<Report> do_run(const BackendInput& input) const override;
};

}  // namespace meshwright::test
