#include <algorithm>

#include "windows.h"

namespace meshwright::onnx {

namespace {

// The bias' value, or kNoId where there is none or an exporter made one of zeros.
ValueId bias_of(Scope& scope, std::int64_t channels) {
  if (!scope.has(2)) return kNoId;
  if (scope.shape(2) != Shape{channels})
    scope.refuse("its bias must have one number for each of the " + std::to_string(channels) + " channels");
  const Literal* known = scope.literal(2);
  const bool zero = known != nullptr && !scope.is_weight(2) &&
                    std::ranges::all_of(known->reals, [](double element) { return element == 0; });
  return zero ? kNoId : scope.value(2);
}

bool all_are(const std::vector<std::int64_t>& list, std::int64_t number) {
  return std::ranges::all_of(list, [&](std::int64_t element) { return element == number; });
}

void translate_convolution(Scope& scope) {
  const Shape weight = scope.shape(1);
  if (weight.size() < 3 || weight.size() != scope.shape(0).size())
    scope.refuse("its weight must have as many dimensions as its operand, 3 to 5");
  Windows windows = windows_of(scope, {weight.begin() + 2, weight.end()}, false);
  const std::int64_t groups = scope.integer("group", 1);
  if (groups < 1 || scope.shape(0)[1] != weight[1] * groups || weight[0] % groups != 0) {
    scope.refuse("a " + to_string(scope.type(0)) + " and a weight of " + to_string(scope.type(1)) +
                 " do not go together in " + std::to_string(groups) + " groups");
  }
  TensorType type{scope.type(0).dtype, {scope.shape(0)[0], weight[0]}};
  type.shape.insert(type.shape.end(), windows.space.begin(), windows.space.end());
  ValueId input = scope.value(0);
  if (!windows.symmetric()) input = padded(scope, input, windows, 0);
  const std::vector<Operand> operands = {
      {"input", input}, {"weight", scope.value(1)}, {"bias", bias_of(scope, weight[0])}};
  const std::size_t space = windows.space.size();
  if (space == 3) {
    return scope.bind(0, scope.emit("aten.convolution", operands,
                                    {{"stride", windows.strides},
                                     {"padding", windows.before},
                                     {"dilation", windows.dilations},
                                     {"transposed", false},
                                     {"output_padding", std::vector<std::int64_t>(space, 0)},
                                     {"groups", groups}},
                                    type));
  }
  Attributes attributes;  // those that are not the defaults, as torch.export has it
  if (!all_are(windows.strides, 1)) attributes["stride"] = windows.strides;
  if (!all_are(windows.before, 0)) attributes["padding"] = windows.before;
  if (!all_are(windows.dilations, 1)) attributes["dilation"] = windows.dilations;
  if (groups != 1) attributes["groups"] = groups;
  scope.bind(0, scope.emit(space == 1 ? "aten.conv1d" : "aten.conv2d", operands, attributes, type));
}

void translate_transposed(Scope& scope) {
  const Shape shape = scope.shape(0), weight = scope.shape(1);
  if (weight.size() < 3 || weight.size() != shape.size() || weight[0] != shape[1])
    scope.refuse("its weight does not go with its operand");
  const std::size_t space = shape.size() - 2;
  const auto list = [&](const char* name, std::size_t length, std::int64_t otherwise) {
    std::vector<std::int64_t> values = scope.integers(name);
    if (values.empty()) values.assign(length, otherwise);
    if (values.size() != length) scope.refuse(std::string("its ") + name + " do not go with its operand's dimensions");
    return values;
  };
  if (scope.has_attribute("output_shape") || scope.text("auto_pad", "NOTSET").starts_with("SAME")) {
    scope.refuse("an output_shape or auto_pad of a transposed convolution is not supported; export it with pads");
  }
  const std::vector<std::int64_t> strides = list("strides", space, 1), dilations = list("dilations", space, 1),
                                  extra = list("output_padding", space, 0);
  const std::vector<std::int64_t> pads = list("pads", 2 * space, 0);
  const std::int64_t groups = scope.integer("group", 1);
  TensorType type{scope.type(0).dtype, {shape[0], weight[1] * groups}};
  std::vector<std::int64_t> padding;
  for (std::size_t i = 0; i < space; ++i) {
    if (pads[i] != pads[i + space])
      scope.refuse("different pads before and behind a transposed convolution are not supported");
    padding.push_back(pads[i]);
    type.shape.push_back((shape[i + 2] - 1) * strides[i] - 2 * pads[i] + dilations[i] * (weight[i + 2] - 1) + extra[i] +
                         1);
  }
  scope.bind(
      0,
      scope.emit("aten.convolution",
                 {{"input", scope.value(0)}, {"weight", scope.value(1)}, {"bias", bias_of(scope, weight[1] * groups)}},
                 {{"stride", strides},
                  {"padding", padding},
                  {"dilation", dilations},
                  {"transposed", true},
                  {"output_padding", extra},
                  {"groups", groups}},
                 type));
}

}  // namespace

void add_convolutions(Translations& all) {
  all["Conv"] = translate_convolution;
  all["ConvTranspose"] = translate_transposed;
}

}  // namespace meshwright::onnx
