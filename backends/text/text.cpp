// Writes a program down as text, for people and for tests.
#include "meshwright/backend.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

class TextBackend final : public Backend {
  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    return std::vector<EmittedFile>{{"program.txt", to_string(input.program)}};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("backend", "text", "0.1.0", "Apache-2.0", "Writes the program as text", nullptr, nullptr, 0,
                  (create_plugin<Backend, TextBackend>), destroy_plugin<Backend>)

}  // namespace meshwright
