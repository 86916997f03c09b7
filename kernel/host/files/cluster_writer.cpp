#include "files/cluster_writer.h"

#include <sstream>

#include "files/device_writer.h"

namespace meshwright::host {

namespace {

std::string list_text(const std::vector<double>& values, const char* unit) {
  std::string text = "[";
  for (const double value : values) text += (text.size() > 1 ? ", \"" : "\"") + quantity_text(value, unit) + '"';
  return text + "]";
}

}  // namespace

std::string cluster_toml(const DetectedLinks& links, const ClusterText& text) {
  std::ostringstream toml;
  std::istringstream lines(text.comment);
  for (std::string line; std::getline(lines, line);) toml << "# " << line << "\n";
  toml << "name = " << toml_string(text.name) << "\nnodes = " << links.nodes << "\ndevices_per_node = " << links.devices_per_node << "\ndevice = " << toml_string(text.device) << "\n";
  if (text.reserved_bytes) toml << "reserved_bytes = \"" << *text.reserved_bytes << "B\"\n";
  for (const LinkLevel& level : links.levels) {
    toml << "\n[[level]]\nname = " << toml_string(level.name) << "\ngroup = " << level.group << "\nbandwidth = \"" << quantity_text(level.bytes_per_second, "B/s") << "\"\nlatency = \""
         << quantity_text(level.latency_seconds, "s") << "\"\n";
    if (level.sharers != 1) toml << "shared_by = " << level.sharers << "\n";
    if (level.ganged) toml << "ganged = true\n";
    for (const BusBandwidth& curve : level.measured) {
      toml << "\n[[level.measured]]\ndevices = " << curve.devices << "\n";
      if (curve.only) toml << "collective = \"" << name(*curve.only) << "\"\n";
      toml << "bytes = " << list_text(curve.bytes, "B") << "\nbus_bandwidth = " << list_text(curve.bytes_per_second, "B/s") << "\n";
    }
  }
  return toml.str();
}

}  // namespace meshwright::host
