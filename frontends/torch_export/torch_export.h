// The frontend as an object, for tests that link it in; the program reaches it through the plugin's descriptor.
#pragma once

#include <memory>

#include "meshwright/frontend.h"

namespace meshwright::torch_export {

std::unique_ptr<Frontend> make_torch_export();

}  // namespace meshwright::torch_export
