#include "files/device_writer.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

namespace meshwright::host {

namespace {

std::string six_digits(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

std::string toml_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + '"';
}

std::string quantity_text(double value, const std::string& unit) {
  constexpr std::array<std::pair<double, const char*>, 9> kPrefixes = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  for (const auto& [scale, prefix] : kPrefixes) {
    if (value >= scale) return six_digits(value / scale) + prefix + unit;
  }
  return six_digits(value) + unit;
}

std::string device_toml(const DeviceSpec& device, const std::string& comment) {
  std::ostringstream text;
  std::istringstream lines(comment);
  for (std::string line; std::getline(lines, line);) text << "# " << line << "\n";
  const auto quantity = [&](const char* key, double value, const char* unit) { text << key << " = \"" << quantity_text(value, unit) << "\"\n"; };
  const auto plain = [&](const char* key, double value) {
    const std::string written = six_digits(value);
    text << key << " = " << written << (written.find_first_of(".en") == std::string::npos ? ".0" : "") << "\n";
  };
  text << "name = " << toml_string(device.name) << "\nmemory = \"" << device.memory_bytes << "B\"\n";
  quantity("memory_bandwidth", device.memory_bytes_per_second, "B/s");
  quantity("vector_flops", device.vector_flops_per_second, "FLOP/s");
  quantity("launch", device.launch_seconds, "s");
  plain("matrix_efficiency", device.matrix_efficiency);
  plain("memory_efficiency", device.memory_efficiency);
  if (device.half_efficiency_flops > 0) quantity("half_efficiency", device.half_efficiency_flops, "FLOP");
  if (device.tf32_flops_per_second > 0) quantity("tf32_flops", device.tf32_flops_per_second, "FLOP/s");
  if (device.multiprocessors > 0) text << "multiprocessors = " << device.multiprocessors << "\n";
  if (device.host_launch_seconds > 0) quantity("host_launch", device.host_launch_seconds, "s");
  if (device.host_collective_seconds > 0) quantity("host_collective", device.host_collective_seconds, "s");
  if (device.skew_seconds > 0) quantity("skew", device.skew_seconds, "s");
  plain("computing_stretch", device.computing_stretch);
  plain("communication_stretch", device.communication_stretch);
  text << "\n[matrix_flops]\n";
  for (const auto& [dtype, rate] : device.matrix_flops_per_second) quantity(std::string(meshwright::name(dtype)).c_str(), rate, "FLOP/s");
  for (const auto& [kernel, rates] : device.attention) {
    text << "\n[attention." << toml_string(kernel) << "]\n";
    plain("efficiency", rates.efficiency);
    plain("half_keys", rates.half_keys);
    plain("half_head", rates.half_head);
    plain("backward", rates.backward);
  }
  const auto list = [&](const char* key, const std::vector<double>& values, const char* unit) {
    text << key << " = [";
    for (std::size_t i = 0; i < values.size(); ++i) text << (i > 0 ? ", \"" : "\"") << quantity_text(values[i], unit) << '"';
    text << "]\n";
  };
  for (const auto& [dtype, curve] : device.product_curves) {
    text << "\n[product_curve." << meshwright::name(dtype) << "]\n";
    list("flops", curve.sizes, "FLOP");
    list("rates", curve.rates, "FLOP/s");
  }
  if (!device.memory_curve.sizes.empty()) {
    text << "\n[memory_curve]\n";
    list("bytes", device.memory_curve.sizes, "B");
    list("bandwidth", device.memory_curve.rates, "B/s");
  }
  if (const MemoryOverheads& overheads = device.overheads; overheads != MemoryOverheads{}) {
    text << "\n[memory_overheads]\n";
    const auto bytes = [&](const char* key, std::int64_t value) { text << key << " = \"" << value << "B\"\n"; };
    bytes("driver", overheads.driver_bytes);
    bytes("context", overheads.context_bytes);
    bytes("workspace", overheads.workspace_bytes);
    bytes("communicator", overheads.communicator_bytes);
    bytes("block", overheads.block_bytes);
    bytes("small_segment", overheads.small_segment_bytes);
    bytes("medium_segment", overheads.medium_segment_bytes);
    plain("fragmentation", overheads.fragmentation);
  }
  return text.str();
}

}  // namespace meshwright::host
