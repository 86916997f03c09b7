// Loads an intra solver from its plugin file, with the defaults of its own schema; for tests.
#pragma once

#include <memory>
#include <string>

#include "meshwright/config.h"
#include "meshwright/solver.h"

namespace meshwright::agreement {

// Keys in `overrides` replace the schema's defaults. Aborts the test program if there is no such plugin.
std::unique_ptr<IntraSolver> load_solver(const std::string& id, const Config& overrides = {});

}  // namespace meshwright::agreement
