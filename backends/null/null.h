// The backend that does nothing, to measure everything else by and to copy.
#pragma once

#include "meshwright/backend.h"

namespace meshwright {

class NullBackend final : public Backend {
 private:
  Result<Report> do_run(const BackendInput& input) const override;
  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override;
};

}  // namespace meshwright
