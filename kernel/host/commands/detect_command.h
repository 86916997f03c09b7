// `meshwright detect`: asks the plugin clusters/detect what joins the devices of a cluster, and writes the cluster's file. Of what was measured before, or of what
// the ranks of a transport measure now: each runs the command, and rank 0 writes and speaks.
#pragma once

#include <string>
#include <vector>

namespace meshwright::host {

struct DetectOptions {
  std::string from;              // recorded matrices, a CSV file
  bool is_recorded = false;      // whether `from` was given
  std::string transport = "mpi"; // the plugin that measures
  std::string keep;              // where what is measured is written, for `from`; "": nowhere
  std::string device;            // a device's file; "": "device.toml" beside the cluster's, for the user to put there
  std::string config;
  std::vector<std::string> set;  // "section.key=value"
  std::string output;            // where the cluster's file is written
  std::string format = "text";   // or "json"
};

int run_detect(const DetectOptions& options);

}  // namespace meshwright::host
