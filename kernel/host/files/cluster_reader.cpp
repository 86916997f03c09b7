#include "files/cluster_reader.h"

#include <optional>
#include <string>
#include <vector>

#include "files/memory_reader.h"

namespace meshwright::host {

DType read_dtype(const JsonPlace& place) {
  const std::string text = place.text();
  const auto dtype = parse_dtype(text);
  if (!dtype) place.fail("'" + text + "' is no dtype");
  return dtype.value_or(DType::float32);
}

namespace {

std::vector<double> numbers_of(const JsonPlace& place) {
  std::vector<double> numbers;
  for (const JsonPlace& number : place.elements()) numbers.push_back(number.number());
  return numbers;
}

RateCurve read_rates(const JsonPlace& place) { return {numbers_of(place.at("sizes")), numbers_of(place.at("rates"))}; }

DeviceSpec read_device(const JsonPlace& place) {
  DeviceSpec device;
  device.name = place.at("device").text();
  device.memory_bytes = place.at("memory_bytes").integer(0);
  device.memory_bytes_per_second = place.at("memory_bytes_per_second").number();
  const JsonPlace rates = place.at("matrix_flops_per_second");
  for (const auto& [name, rate] : rates.members()) {
    const auto dtype = parse_dtype(name);
    if (!dtype) rates.fail("'" + name + "' is no dtype");
    device.matrix_flops_per_second[dtype.value_or(DType::float32)] = rate.number();
  }
  device.vector_flops_per_second = place.at("vector_flops_per_second").number();
  device.launch_seconds = place.at("launch_seconds").number();
  device.matrix_efficiency = place.at("matrix_efficiency").number();
  device.memory_efficiency = place.at("memory_efficiency").number();
  device.half_efficiency_flops = place.at("half_efficiency_flops").number();
  if (const std::optional<JsonPlace> overheads = place.find("memory_overheads"))
    device.overheads = read_overheads(*overheads);
  if (!place.find("multiprocessors")) return device;  // a plan of before these were known
  device.tf32_flops_per_second = place.at("tf32_flops_per_second").number();
  device.multiprocessors = place.at("multiprocessors").integer(0);
  device.host_launch_seconds = place.at("host_launch_seconds").seconds();
  device.host_collective_seconds = place.at("host_collective_seconds").seconds();
  device.skew_seconds = place.at("skew_seconds").seconds();
  device.computing_stretch = place.at("computing_stretch").number();
  device.communication_stretch = place.at("communication_stretch").number();
  const JsonPlace attention = place.at("attention");
  for (const auto& [kernel, rates] : attention.members()) {
    device.attention[kernel] = {rates.at("efficiency").number(), rates.at("half_keys").number(), rates.at("half_head").number(), rates.at("backward").number()};
  }
  if (const std::optional<JsonPlace> curves = place.find("product_curves")) {
    for (const auto& [name, curve] : curves->members()) {
      const auto dtype = parse_dtype(name);
      if (!dtype) curves->fail("'" + name + "' is no dtype");
      device.product_curves[dtype.value_or(DType::float32)] = read_rates(curve);
    }
  }
  if (const std::optional<JsonPlace> curve = place.find("memory_curve")) device.memory_curve = read_rates(*curve);
  return device;
}

BusBandwidth read_curve(const JsonPlace& place) {
  BusBandwidth curve{place.at("devices").integer(0), {}, numbers_of(place.at("bytes")), numbers_of(place.at("bytes_per_second"))};
  if (const JsonPlace only = place.at("only"); !only.is_null()) curve.only = only.one_of(CollectiveKind::permute, [](CollectiveKind kind) { return name(kind); });
  return curve;
}

}  // namespace

namespace {

// Without what is checked of a whole one.
Cluster read_part(const JsonPlace& place) {
  Cluster cluster;
  cluster.name = place.at("name").text();
  cluster.device = read_device(place);
  cluster.nodes = place.at("nodes").integer(1, kMostDevices);
  cluster.devices_per_node = place.at("devices_per_node").integer(1, kMostDevices);
  cluster.reserved_bytes = place.at("reserved_bytes").integer(0);
  for (const JsonPlace& level : place.at("levels").elements()) {
    cluster.levels.push_back({level.at("name").text(), level.at("group").integer(0),
                              level.at("bytes_per_second").number(), level.at("latency_seconds").number(),
                              level.at("sharers").integer(0), level.at("ganged").boolean(), {}});
    if (const std::optional<JsonPlace> measured = level.find("measured")) {
      for (const JsonPlace& curve : measured->elements()) cluster.levels.back().measured.push_back(read_curve(curve));
    }
  }
  return cluster;
}

}  // namespace

Cluster read_cluster(const JsonPlace& place) {
  Cluster cluster = read_part(place);
  if (const std::optional<JsonPlace> parts = place.find("parts")) {
    for (const JsonPlace& part : parts->elements()) cluster.parts.push_back(read_part(part));
  }
  if (place.failed()) return cluster;
  if (const Status status = validate(cluster); !status) place.fail(status.error().message);
  return cluster;
}

}  // namespace meshwright::host
