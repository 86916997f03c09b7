#include "windows.h"

#include <algorithm>

namespace meshwright::onnx {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;

}  // namespace

Windows windows_of(Scope& scope, const std::vector<std::int64_t>& kernel, bool round_up) {
  const Shape& shape = scope.shape(0);
  if (shape.size() < 3) scope.refuse("its operand has no dimensions of space");
  const std::size_t space = shape.size() - 2;
  Windows windows;
  const auto list = [&](const char* name, std::size_t length, std::int64_t otherwise) {
    std::vector<std::int64_t> values = scope.integers(name);
    if (values.empty()) values.assign(length, otherwise);
    if (values.size() != length) scope.refuse(std::string("its ") + name + " do not go with its operand's dimensions");
    return values;
  };
  windows.kernel = scope.integers("kernel_shape").empty() ? kernel : scope.integers("kernel_shape");
  if (windows.kernel.size() != space) scope.refuse("its kernel does not go with its operand's dimensions");
  windows.strides = list("strides", space, 1);
  windows.dilations = list("dilations", space, 1);
  const std::vector<std::int64_t> pads = list("pads", 2 * space, 0);
  windows.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(space));
  windows.behind.assign(pads.begin() + static_cast<std::ptrdiff_t>(space), pads.end());
  const std::string automatic = scope.text("auto_pad", "NOTSET");
  for (const std::vector<std::int64_t>& values : {windows.kernel, windows.strides, windows.dilations, pads}) {
    if (std::ranges::any_of(values, [](std::int64_t value) { return value < -kMost || value > kMost; }))
      scope.refuse("its kernel, strides, dilations and pads must be below " + std::to_string(kMost));
  }
  for (std::size_t i = 0; i < space; ++i) {
    const std::int64_t size = shape[i + 2], stride = windows.strides[i],
                       reach = (windows.kernel[i] - 1) * windows.dilations[i] + 1;
    if (stride < 1 || windows.dilations[i] < 1 || windows.kernel[i] < 1)
      scope.refuse("its strides, dilations and kernel must be at least 1");
    if (automatic == "VALID") windows.before[i] = windows.behind[i] = 0;
    if (automatic.starts_with("SAME")) {
      const std::int64_t missing =
          std::max<std::int64_t>(((size + stride - 1) / stride - 1) * stride + reach - size, 0);
      windows.before[i] = automatic == "SAME_LOWER" ? missing - missing / 2 : missing / 2;
      windows.behind[i] = missing - windows.before[i];
    }
    const std::int64_t room = size + windows.before[i] + windows.behind[i] - reach;
    if (room < 0) scope.refuse("its kernel is larger than its padded operand");
    std::int64_t count = (round_up ? (room + stride - 1) / stride : room / stride) + 1;
    if (round_up && (count - 1) * stride >= size + windows.before[i])
      --count;  // a window that starts in the padding behind
    windows.space.push_back(count);
  }
  return windows;
}

ValueId padded(Scope& scope, ValueId value, Windows& windows, double filling) {
  TensorType type = scope.type_of(value);
  std::vector<std::int64_t> widths;
  for (std::size_t i = windows.before.size(); i-- > 0;) {
    widths.push_back(windows.before[i]);
    widths.push_back(windows.behind[i]);
    type.shape[i + 2] += windows.before[i] + windows.behind[i];
    windows.before[i] = windows.behind[i] = 0;
  }
  return scope.emit("aten.constant_pad_nd", {{"self", value}}, {{"pad", widths}, {"value", filling}}, type);
}

}  // namespace meshwright::onnx
