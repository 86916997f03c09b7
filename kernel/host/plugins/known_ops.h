// Lists of ops that coverage is counted against.
#pragma once

#include <span>
#include <string_view>

namespace meshwright::host {

// PyTorch's core ATen opset, sorted, in our spelling (an overload "default" is left out).
std::span<const std::string_view> core_ops();
// What torch.export keeps whole though core ops would do.
std::span<const std::string_view> composite_ops();

}  // namespace meshwright::host
