// As PyTorch's GridSampler.h.
#include <algorithm>
#include <cmath>

#include "grid_sampler.h"
#include "numbers.h"

namespace meshwright {

namespace {

enum class Outside : std::uint8_t { zeros, border, reflection };

// Where along one dimension, in pixels, and how fast that moves with the grid's number.
struct Coordinate {
  double at = 0, slope = 0;
};

Coordinate clipped(Coordinate place, double last) {
  if (place.at <= 0) return {0, 0};
  return place.at >= last ? Coordinate{last, 0} : place;
}

// Mirrored at two borders, which are given twice as large.
Coordinate reflected(Coordinate place, std::int64_t twice_low, std::int64_t twice_high) {
  if (twice_low == twice_high) return {0, 0};
  const double low = static_cast<double>(twice_low) / 2, span = static_cast<double>(twice_high - twice_low) / 2;
  double distance = place.at - low;
  if (distance < 0) distance = -distance, place.slope = -place.slope;
  const double rest = std::fmod(distance, span);
  const bool even = std::fmod(std::floor(distance / span), 2) == 0;
  return even ? Coordinate{rest + low, place.slope} : Coordinate{span - rest + low, -place.slope};
}

Coordinate coordinate(double number, std::int64_t size, bool align_corners, Outside outside) {
  const auto extent = static_cast<double>(size);
  Coordinate place = align_corners ? Coordinate{(number + 1) / 2 * (extent - 1), (extent - 1) / 2}
                                   : Coordinate{((number + 1) * extent - 1) / 2, extent / 2};
  if (outside == Outside::zeros) return place;
  if (outside == Outside::reflection) {
    place = align_corners ? reflected(place, 0, 2 * (size - 1)) : reflected(place, -1, 2 * size - 1);
  }
  return clipped(place, extent - 1);
}

// One pixel that a place reads: its weight, and the weight's derivatives by the grid's x and y.
struct Tap {
  std::int64_t pixel = 0;
  double weight = 0, by_x = 0, by_y = 0;
};

std::vector<Tap> taps_at(double grid_x, double grid_y, std::int64_t height, std::int64_t width, const Node& node) {
  const bool align = node.boolean("align_corners", false);
  const auto outside = static_cast<Outside>(node.integer("padding_mode", 0));
  const Coordinate x = coordinate(grid_x, width, align, outside), y = coordinate(grid_y, height, align, outside);
  std::vector<Tap> taps;
  const auto add = [&](std::int64_t row, std::int64_t column, Tap tap) {
    if (row < 0 || row >= height || column < 0 || column >= width) return;
    tap.pixel = row * width + column;
    taps.push_back(tap);
  };
  if (node.integer("interpolation_mode", 0) == 1) {
    add(static_cast<std::int64_t>(std::nearbyint(y.at)), static_cast<std::int64_t>(std::nearbyint(x.at)), {0, 1, 0, 0});
    return taps;
  }
  const double left = std::floor(x.at), top = std::floor(y.at);
  for (int down = 0; down < 2; ++down) {
    for (int right = 0; right < 2; ++right) {
      const double along_x = right ? x.at - left : left + 1 - x.at, along_y = down ? y.at - top : top + 1 - y.at;
      add(static_cast<std::int64_t>(top) + down, static_cast<std::int64_t>(left) + right,
          {0, along_x * along_y, (right ? 1 : -1) * x.slope * along_y, (down ? 1 : -1) * y.slope * along_x});
    }
  }
  return taps;
}

}  // namespace

Result<std::vector<Tensor>> grid_sampler_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Node& node = call.node;
  const bool of_input = node.op == kInputGradient, of_grid = node.op == kGridGradient;
  if (node.integer("interpolation_mode", 0) > 1) return bad_input("bicubic sampling is not supported; bilinear and nearest are");
  const TensorType& image = of_input ? call.results[0] : call.operands[of_grid ? 1 : 0];
  const Tensor& grid = *operands[*node.operand_index("grid")];
  const Numbers first = numbers_of(*operands[0]), second = of_grid ? numbers_of(*operands[1]) : Numbers{};
  Numbers result = zeros(call.results[0]);
  const std::int64_t channels = image.shape[1], height = image.shape[2], width = image.shape[3], pixels = height * width;
  const std::int64_t places = grid.shape()[1] * grid.shape()[2];
  for (std::int64_t i = 0; i < grid.shape()[0] * places; ++i) {
    const std::vector<Tap> taps = taps_at(grid.get(2 * i), grid.get(2 * i + 1), height, width, node);
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t plane = i / places * channels + c, out = plane * places + i % places;
      for (const Tap& tap : taps) {
        const std::int64_t in = plane * pixels + tap.pixel;
        if (of_grid) {
          const double product = first[to_size(out)] * second[to_size(in)];
          result[to_size(2 * i)] += product * tap.by_x;
          result[to_size(2 * i + 1)] += product * tap.by_y;
        } else if (of_input) {
          result[to_size(in)] += first[to_size(out)] * tap.weight;
        } else {
          result[to_size(out)] += first[to_size(in)] * tap.weight;
        }
      }
    }
  }
  std::vector<Tensor> results;
  results.push_back(written(call.result(0), result));
  return results;
}

}  // namespace meshwright
