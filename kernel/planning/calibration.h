// Fits what a device file says to steps that were measured: named coefficients, each within what is physically plausible.
#pragma once

#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/cost.h"
#include "meshwright/op.h"
#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright {

// A number of a device that can be fitted.
struct Coefficient {
  const char* name;     // as the device's file calls it
  const char* unit;     // "", or "s"
  double least, most;   // what is plausible
  double* (*of)(DeviceSpec& device, const std::string& attention);  // nothing where the device has none for this kernel
};

const std::vector<Coefficient>& all_coefficients();

// One step that was measured, and the program that ran.
struct MeasuredStep {
  std::string name;
  Program program;
  std::vector<Work> works;  // works_of the program
  CostProfile profile;
  Cluster cluster;
  TrainingSettings training;
  bool recomputes = false;  // each microbatch ran its forward twice
  double seconds = 0;
};

// What the clock says of a step on this device in place of its own.
Result<double> predicted_seconds(MeasuredStep& step, const DeviceSpec& device);

struct Calibration {
  DeviceSpec device;
  double error_before = 0, error_after = 0;  // mean of |predicted / measured - 1|
  int evaluations = 0;                       // of all steps
};

// Moves the coefficients of `device` until no step of 0.5 % of any of them lowers the mean error; one that is 0 begins at its least value. The same
// steps in the same order give the same answer. Errors: bad_input, for no steps or more coefficients than steps.
Result<Calibration> calibrate(std::vector<MeasuredStep>& steps, DeviceSpec device, const std::vector<const Coefficient*>& coefficients);

}  // namespace meshwright
