// A device's file (configs/devices), written.
#pragma once

#include <string>

#include "meshwright/cluster.h"

namespace meshwright::host {

// As clusters/file reads it back. `comment` comes first, each of its lines behind a '#'.
std::string device_toml(const DeviceSpec& device, const std::string& comment);

// A TOML string with its quotes; control characters become blanks.
std::string toml_string(const std::string& text);

// "42.1us", "312TFLOP/s": six digits.
std::string quantity_text(double value, const std::string& unit);

}  // namespace meshwright::host
