// The frontend as an object, for tests that link it in; the program reaches it through the plugin's descriptor.
#pragma once

#include <memory>

#include "meshwright/frontend.h"
#include "scope.h"

namespace meshwright::onnx {

std::unique_ptr<Frontend> make_onnx(const Options& options = {});

}  // namespace meshwright::onnx
