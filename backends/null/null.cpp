#include "null.h"

#include "meshwright/plugin.h"

namespace meshwright {

// Called with a program that is finished and valid. A backend that runs it hands gradients and updated parameters to
// input.observer, and reports what was sent and held.
Result<Report> NullBackend::do_run(const BackendInput& input) const {
  Report report;
  report.ranks = input.program.mesh.devices();
  return report;
}

// A backend that writes files returns their names, relative to the output folder, and texts; the host writes them.
Result<std::vector<EmittedFile>> NullBackend::do_emit(const BackendInput&) const { return std::vector<EmittedFile>{}; }

MESHWRIGHT_PLUGIN("backend", "null", "0.1.0", "Apache-2.0", "Does nothing", nullptr, nullptr, 0,
                  (create_plugin<Backend, NullBackend>), destroy_plugin<Backend>)

}  // namespace meshwright
