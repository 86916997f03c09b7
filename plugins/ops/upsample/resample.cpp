#include "resample.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

Mode mode_of(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  Mode mode;
  mode.interpolation = has("nearest_exact") ? Interpolation::nearest_exact
                       : has("nearest")     ? Interpolation::nearest
                       : has("cubic")       ? Interpolation::cubic
                                            : Interpolation::linear;
  mode.antialias = has("2d_aa");
  mode.space = has("1d") ? 1 : has("3d") ? 3 : 2;
  return mode;
}

namespace {

// Keys' cubic convolution (1981) at a distance from the output position.
double cubic(double distance, double a) {
  const double x = std::abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double triangle(double distance) { return std::max(1 - std::abs(distance), 0.0); }

// The filter is as wide as an output step where that is longer than an input step, and its weights add up to 1.
void add_smoothed(std::vector<Tap>& made, Interpolation interpolation, double step, std::int64_t input, std::int64_t y) {
  const bool is_cubic = interpolation == Interpolation::cubic;
  const double width = std::max(step, 1.0), reach = (is_cubic ? 2 : 1) * width, center = step * (static_cast<double>(y) + 0.5);
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
  const auto last = std::min(static_cast<std::int64_t>(center + reach + 0.5), input);
  double sum = 0;
  const std::size_t begin = made.size();
  for (std::int64_t x = first; x < last; ++x) {
    const double distance = (static_cast<double>(x) - center + 0.5) / width;
    made.push_back({x, y, is_cubic ? cubic(distance, -0.5) : triangle(distance)});
    sum += made.back().weight;
  }
  for (std::size_t i = begin; i < made.size(); ++i) made[i].weight /= sum;
}

}  // namespace

std::vector<Tap> taps(const Mode& mode, bool align_corners, double scale, std::int64_t input, std::int64_t output) {
  const bool nearest = mode.interpolation == Interpolation::nearest || mode.interpolation == Interpolation::nearest_exact;
  align_corners &= !nearest;
  double step = scale > 0 ? 1 / scale : static_cast<double>(input) / static_cast<double>(output);
  if (align_corners) step = output > 1 ? static_cast<double>(input - 1) / static_cast<double>(output - 1) : 0;
  std::vector<Tap> made;
  for (std::int64_t y = 0; y < output; ++y) {
    const auto at = static_cast<double>(y);
    if (nearest) {
      const double offset = mode.interpolation == Interpolation::nearest_exact ? 0.5 : 0;
      made.push_back({std::min(static_cast<std::int64_t>(std::floor((at + offset) * step)), input - 1), y, 1});
      continue;
    }
    if (mode.antialias) {
      add_smoothed(made, mode.interpolation, step, input, y);
      continue;
    }
    double place = align_corners ? step * at : step * (at + 0.5) - 0.5;
    const bool is_cubic = mode.interpolation == Interpolation::cubic;
    if (!is_cubic) place = std::max(place, 0.0);
    const auto before = static_cast<std::int64_t>(std::floor(place));
    for (std::int64_t x = before - (is_cubic ? 1 : 0); x <= before + (is_cubic ? 2 : 1); ++x) {
      const double distance = static_cast<double>(x) - place, weight = is_cubic ? cubic(distance, -0.75) : triangle(distance);
      made.push_back({std::clamp<std::int64_t>(x, 0, input - 1), y, weight});  // the border goes on
    }
  }
  return made;
}

Numbers resample(const Numbers& numbers, std::vector<std::int64_t>& shape, std::size_t at, std::int64_t size,
                 const std::vector<Tap>& taps, bool transposed) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) (d < at ? outer : inner) *= d == at ? 1 : shape[d];
  Numbers made(to_size(outer * size * inner), 0.0);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Tap& tap : taps) {
      const std::int64_t from = (o * shape[at] + (transposed ? tap.output : tap.input)) * inner;
      const std::int64_t to = (o * size + (transposed ? tap.input : tap.output)) * inner;
      for (std::int64_t i = 0; i < inner; ++i) made[to_size(to + i)] += tap.weight * numbers[to_size(from + i)];
    }
  }
  shape[at] = size;
  return made;
}

}  // namespace meshwright
