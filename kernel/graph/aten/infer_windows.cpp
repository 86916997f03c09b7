// Windows that slide over space: convolutions, poolings, paddings, interpolation, columns.
#include <cmath>

#include "infer.h"

namespace meshwright::aten {

namespace {

constexpr std::int64_t kMostStep = std::int64_t{1} << 31;

Status check_steps(const Shape& numbers, std::int64_t least, std::string_view name) {
  for (const std::int64_t number : numbers) {
    if (number < least || number > kMostStep)
      return bad_input("its argument '" + std::string(name) + "' must be " + std::to_string(least) + " at least");
  }
  return Done{};
}

// Stride, dilation and padding of `space` dimensions.
struct Steps {
  Shape stride, dilation, padding;

  static Result<Steps> of(const Call& call, std::size_t space) {
    Steps steps;
    for (const auto& [name, list, otherwise] : {std::tuple("stride", &steps.stride, std::int64_t{1}),
                                                std::tuple("dilation", &steps.dilation, std::int64_t{1}),
                                                std::tuple("padding", &steps.padding, std::int64_t{0})}) {
      Result<Shape> numbers = call.spread(name, space, otherwise);
      if (!numbers) return numbers.error();
      if (Status status = check_steps(*numbers, otherwise, name); !status) return status.error();
      *list = std::move(*numbers);
    }
    return steps;
  }
};

std::string windows_text(const Shape& kernel, const Shape& space) {
  return "windows of " + text(kernel) + " do not fit into " + text(space);
}

Result<Shapes> transposed(const Call& call, const Shape& input, const Shape& weight, const Steps& steps,
                          std::int64_t groups) {
  const std::size_t space = weight.size() - 2;
  Result<Shape> more = call.spread("output_padding", space, 0);
  if (!more) return more.error();
  if (Status status = check_steps(*more, 0, "output_padding"); !status) return status.error();
  if (input[1] != weight[0] || input[1] % groups != 0)
    return bad_input("its weight of " + text(weight) + " does not fit its input of " + text(input));
  Shape made = {input[0], weight[1] * groups};
  for (std::size_t i = 0; i < space; ++i) {
    made.push_back((input[i + 2] - 1) * steps.stride[i] - 2 * steps.padding[i] +
                   steps.dilation[i] * (weight[i + 2] - 1) + (*more)[i] + 1);
    if (made.back() < 1) return bad_input(windows_text(weight, input));
  }
  return Shapes{made};
}

Result<Shapes> convolution(const Call& call) {
  Shape input = call.shape("input");
  const Shape& weight = call.shape("weight");
  const std::int64_t groups = call.integer("groups", 1);
  const bool batched = input.size() == weight.size();
  if (weight.size() < 3 || (!batched && input.size() + 1 != weight.size()))
    return bad_input("its weight of " + text(weight) + " has another rank than its input of " + text(input));
  if (groups < 1) return bad_input("its groups must be 1 at least");
  if (!batched) input.insert(input.begin(), 1);
  const std::size_t space = weight.size() - 2;
  const bool is_transposed = call.op().starts_with("aten.conv_transpose") || call.truth("transposed");
  const std::int64_t outputs = is_transposed ? weight[1] * groups : weight[0];
  if (call.has("bias") && call.shape("bias") != Shape{outputs})
    return bad_input("its bias must have " + std::to_string(outputs) + " elements");
  const Result<Steps> steps = Steps::of(call, space);
  if (!steps) return steps.error();
  Result<Shapes> shapes = Shapes{};
  if (is_transposed) {
    shapes = transposed(call, input, weight, *steps, groups);
    if (!shapes) return shapes;
  } else {
    if (input[1] != weight[1] * groups || weight[0] % groups != 0)
      return bad_input("its weight of " + text(weight) + " does not fit its input of " + text(input));
    const bool same = call.node().text("padding", "valid") == "same";
    Shape made = {input[0], weight[0]};
    for (std::size_t i = 0; i < space; ++i) {
      const std::int64_t reach = steps->dilation[i] * (weight[i + 2] - 1) + 1;
      const std::int64_t size = same ? input[i + 2] : input[i + 2] + 2 * steps->padding[i];
      if (!same && size < reach) return bad_input(windows_text(weight, input));
      made.push_back(same ? size : (size - reach) / steps->stride[i] + 1);
    }
    shapes = Shapes{made};
  }
  if (!batched) (*shapes)[0].erase((*shapes)[0].begin());
  return shapes;
}

std::size_t space_of(const std::string& op) {
  const std::size_t d = op.find_first_of("123");
  return d == std::string::npos ? 2 : static_cast<std::size_t>(op[d] - '0');
}

// The dimensions before space, and space.
Result<std::pair<Shape, Shape>> cut(const Call& call, std::size_t space) {
  const Shape& self = call.operand(0).shape;
  if (self.size() < space + 1 || self.size() > space + 2)
    return bad_input("its tensor must have " + std::to_string(space + 1) + " or " + std::to_string(space + 2) +
                     " dimensions");
  const auto middle = self.end() - static_cast<std::ptrdiff_t>(space);
  return std::pair(Shape(self.begin(), middle), Shape(middle, self.end()));
}

Result<Shapes> pooling(const Call& call) {
  const std::size_t space = space_of(call.op());
  const auto parts = cut(call, space);
  if (!parts) return parts.error();
  const Result<Shape> kernel = call.spread("kernel_size", space, 0);
  if (!kernel) return kernel.error();
  if (Status status = check_steps(*kernel, 1, "kernel_size"); !status) return status.error();
  Result<Steps> steps = Steps::of(call, space);
  if (!steps) return steps.error();
  if (call.list("stride").empty()) steps->stride = *kernel;
  Shape made = parts->first;
  for (std::size_t i = 0; i < space; ++i) {
    if (steps->padding[i] > (*kernel)[i] / 2) return bad_input("its padding is more than half of its kernel_size");
    const std::int64_t stride = steps->stride[i], reach = steps->dilation[i] * ((*kernel)[i] - 1) + 1;
    const std::int64_t size =
        parts->second[i] + 2 * steps->padding[i] - reach + (call.truth("ceil_mode") ? stride - 1 : 0);
    if (size < 0) return bad_input(windows_text(*kernel, parts->second));
    std::int64_t count = size / stride + 1;
    // The last window begins inside of the tensor or the padding before it.
    if (call.truth("ceil_mode") && (count - 1) * stride >= parts->second[i] + steps->padding[i]) --count;
    made.push_back(count);
  }
  return Shapes(call.results(), made);
}

Result<Shapes> of_output_size(const Call& call) {
  const std::size_t space = space_of(call.op());
  const auto parts = cut(call, space);
  if (!parts) return parts.error();
  const Result<Shape> sizes = call.spread("output_size", space, 0);
  if (!sizes) return sizes.error();
  if (Status status = check_steps(*sizes, 1, "output_size"); !status) return status.error();
  Shape made = parts->first;
  made.insert(made.end(), sizes->begin(), sizes->end());
  return Shapes(call.results(), made);
}

// By its sizes, or by how many times as large as before.
Result<Shapes> scaled(const Call& call) {
  if (call.says("output_size")) return of_output_size(call);
  const std::size_t space = space_of(call.op());
  const auto parts = cut(call, space);
  if (!parts) return parts.error();
  const auto found = call.node().attributes.find("scale_factors");
  const auto* factors =
      found == call.node().attributes.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
  if (factors == nullptr || factors->size() != space)
    return bad_input("it has neither an output_size nor scale_factors");
  Shape made = parts->first;
  for (std::size_t i = 0; i < space; ++i) {
    const double size = std::floor(static_cast<double>(parts->second[i]) * (*factors)[i]);
    if (!(size >= 1 && size < 1e15)) return bad_input("its scale_factors make no size");
    made.push_back(static_cast<std::int64_t>(size));
  }
  return Shapes{made};
}

// Two numbers for each dimension, from the last one on; a negative one cuts.
Result<Shapes> padded(const Call& call) {
  Shape made = call.operand(0).shape;
  const Shape pads = call.list(call.says("pad") ? "pad" : "padding");
  if (pads.size() % 2 != 0 || pads.size() / 2 > made.size())
    return bad_input("its padding has " + std::to_string(pads.size()) + " numbers");
  const std::string mode = call.node().text("mode", "constant");
  const bool cuts =
      call.op() == "aten.constant_pad_nd" || (call.op() == "aten.pad" && (mode == "constant" || mode == "circular"));
  const bool reflects =
      call.op().find("reflection") != std::string::npos || mode == "reflect";
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    std::int64_t& size = made[made.size() - 1 - i];
    const std::int64_t before = pads[2 * i], behind = pads[2 * i + 1];
    if (std::abs(before) > kMostStep || std::abs(behind) > kMostStep || (!cuts && (before < 0 || behind < 0)) ||
        (reflects && (before >= size || behind >= size)) || (before < 0 && -before > size) ||
        (behind < 0 && -behind > size)) {
      return bad_input("its padding " + text(pads) + " does not fit " + text(call.operand(0).shape));
    }
    size += before + behind;
    if (size < 1) return bad_input("its padding " + text(pads) + " leaves nothing of " + text(call.operand(0).shape));
  }
  return Shapes{made};
}

Result<Shapes> shuffled(const Call& call) {
  Shape made = call.operand(0).shape;
  const bool up = call.op() == "aten.pixel_shuffle";
  const std::int64_t factor = call.integer(up ? "upscale_factor" : "downscale_factor", 1);
  if (made.size() < 3 || factor < 1 || factor > kMostStep)
    return bad_input("it needs three dimensions and a factor of 1 at least");
  std::int64_t &channels = made[made.size() - 3], &height = made[made.size() - 2], &width = made.back();
  if (up ? channels % (factor * factor) != 0 : height % factor != 0 || width % factor != 0)
    return bad_input("its factor " + std::to_string(factor) + " does not divide " + text(made));
  channels = up ? channels / (factor * factor) : channels * factor * factor;
  height = up ? height * factor : height / factor;
  width = up ? width * factor : width / factor;
  return Shapes{made};
}

// The places of a window of an image, both dimensions together. Errors: it does not fit.
Result<std::int64_t> places(const Shape& image, const Shape& kernel, const Steps& steps) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t size = image[i] + 2 * steps.padding[i] - steps.dilation[i] * (kernel[i] - 1) - 1;
    if (size < 0) return bad_input(windows_text(kernel, image));
    count *= size / steps.stride[i] + 1;
  }
  return count;
}

Result<Shapes> columns(const Call& call) {
  const bool back = call.op() == "aten.col2im";
  const Shape& self = call.operand(0).shape;
  const std::size_t inner = back ? 2 : 3;
  if (self.size() != inner && self.size() != inner + 1)
    return bad_input("its tensor has " + std::to_string(self.size()) + " dimensions");
  const Result<Shape> kernel = call.spread("kernel_size", 2, 0);
  if (!kernel) return kernel.error();
  if (Status status = check_steps(*kernel, 1, "kernel_size"); !status) return status.error();
  const Result<Steps> steps = Steps::of(call, 2);
  if (!steps) return steps.error();
  Shape image(self.end() - 2, self.end());
  if (back) {
    const Result<Shape> size = call.spread("output_size", 2, 0);
    if (!size) return size.error();
    if (Status status = check_steps(*size, 1, "output_size"); !status) return status.error();
    image = *size;
  }
  const Result<std::int64_t> count = places(image, *kernel, *steps);
  if (!count) return count.error();
  const std::int64_t window = (*kernel)[0] * (*kernel)[1];
  Shape made(self.begin(), self.end() - static_cast<std::ptrdiff_t>(inner));
  if (!back) {
    made.insert(made.end(), {self[self.size() - 3] * window, *count});
    return Shapes{made};
  }
  if (self.back() != *count || self[self.size() - 2] % window != 0)
    return bad_input("its columns of " + text(self) + " are none of an image of " + text(image));
  made.insert(made.end(), {self[self.size() - 2] / window, image[0], image[1]});
  return Shapes{made};
}

Result<Shapes> sampled(const Call& call) {
  const Shape &input = call.shape("input"), &grid = call.shape("grid");
  if (input.size() < 4 || input.size() > 5 || grid.size() != input.size() || grid[0] != input[0] ||
      grid.back() != static_cast<std::int64_t>(input.size()) - 2) {
    return bad_input("its grid of " + text(grid) + " does not fit its input of " + text(input));
  }
  Shape made = {input[0], input[1]};
  made.insert(made.end(), grid.begin() + 1, grid.end() - 1);
  return Shapes{made};
}

}  // namespace

Table window_table() {
  return {
      {"conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding convolution conv_transpose1d "
       "conv_transpose2d.input "
       "conv_transpose3d.input",
       convolution},
      {"avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices "
       "max_pool3d "
       "max_pool3d_with_indices",
       pooling},
      {"_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
       "adaptive_max_pool1d "
       "adaptive_max_pool2d adaptive_max_pool3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
       "_upsample_nearest_exact2d "
       "upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d "
       "upsample_nearest3d "
       "upsample_trilinear3d",
       of_output_size},
      {"_upsample_bicubic2d_aa.vec _upsample_bilinear2d_aa.vec _upsample_nearest_exact2d.vec upsample_bicubic2d.vec "
       "upsample_bilinear2d.vec upsample_linear1d.vec upsample_nearest1d.vec upsample_nearest2d.vec "
       "upsample_nearest3d.vec "
       "upsample_trilinear3d.vec",
       scaled},
      {"constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
       "replication_pad3d",
       padded},
      {"pixel_shuffle pixel_unshuffle", shuffled},
      {"im2col col2im", columns},
      {"grid_sampler grid_sampler_2d", sampled},
  };
}

}  // namespace meshwright::aten
