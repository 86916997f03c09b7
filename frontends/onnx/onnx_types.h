// Small translations between ONNX's words and ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "meshwright/dtype.h"

namespace meshwright::onnx {

// The dtype of ONNX's number for a type; none where we have no such type.
std::optional<DType> dtype_of(std::int64_t onnx_type);
std::string type_name(std::int64_t onnx_type);  // "uint32"

// Whether the bytes are UTF-8 without control characters: what can be shown, and written as JSON.
bool is_text(std::string_view bytes);

// "['', 'm', 'm.layers.0', 'linear']" (PyTorch's exporter with dynamo) -> "m.layers.0"
std::string module_of_scopes(const std::string& scopes);

// "/m/layers/layers.0/MatMul" (PyTorch's older exporter) -> "m.layers.0"; "" for a name of another form
std::string module_of_name(const std::string& node_name);

}  // namespace meshwright::onnx
