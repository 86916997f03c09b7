// `meshwright detect`: asks the plugin clusters/detect what joins the devices of a cluster, and writes the cluster's file.
#pragma once

#include <string>
#include <vector>

namespace meshwright::host {

struct DetectOptions {
  std::string from;              // recorded matrices, a CSV file
  std::string device;            // a device's file; "": "device.toml" beside the cluster's, for the user to put there
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string output;            // where the cluster's file is written
  std::string format = "text";   // or "json"
};

int run_detect(const DetectOptions& options);

}  // namespace meshwright::host
