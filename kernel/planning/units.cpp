#include "units.h"

#include <cmath>
#include <cstdio>
#include <iterator>

namespace meshwright {

namespace {

constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

struct ScaledSize {
  double number = 0;  // of these units
  std::size_t unit = 0;
  int decimals = 0;
};

ScaledSize scaled(std::int64_t bytes) {
  ScaledSize size{static_cast<double>(bytes)};
  for (; size.number >= 999.5 && size.unit + 1 < std::size(kUnits); ++size.unit) size.number /= 1024;
  size.decimals = size.unit == 0 || size.number >= 99.95 ? 0 : size.number >= 9.995 ? 1 : 2;
  return size;
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  const ScaledSize size = scaled(bytes);
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", size.decimals, size.number, kUnits[size.unit]);
  return text;
}

std::string size_text_beside(std::int64_t bytes, std::int64_t other) {
  return bytes != other && size_text(bytes) == size_text(other) ? std::to_string(bytes) + " B" : size_text(bytes);
}

std::int64_t written_size(std::int64_t bytes) {
  const ScaledSize size = scaled(bytes);
  const double last_digit = std::pow(10.0, size.decimals), unit = std::pow(1024.0, static_cast<double>(size.unit));
  // A part of a byte that is written is not asked for.
  for (double digits = std::ceil(size.number * last_digit);; ++digits) {
    const auto written = static_cast<std::int64_t>(digits / last_digit * unit);
    if (written >= bytes) return written;
  }
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", 1e3 * seconds);
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

}  // namespace meshwright
