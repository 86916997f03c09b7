// For tests: what a descriptor of cuDNN's has, and a GPU that it may plan for.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "dnn.h"

namespace meshwright::cuda {

// An H100's properties, as cuDNN writes them.
inline constexpr const char* kH100 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85014478848,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"})";

inline const DnnValue* find_value(const DnnDescriptor& of, int attribute) {
  const auto found = std::ranges::find(of.values, attribute, &DnnValue::attribute);
  return found == of.values.end() ? nullptr : &*found;
}

inline const DnnValue& value(const DnnDescriptor& of, int attribute) {
  const DnnValue* found = find_value(of, attribute);
  if (found == nullptr) throw std::out_of_range("attribute " + std::to_string(attribute));
  return *found;
}

template <class Number>
Number number(const DnnDescriptor& of, int attribute) {
  const DnnValue& found = value(of, attribute);
  Number number = 0;
  if (found.bytes.size() != sizeof number) throw std::length_error("attribute " + std::to_string(attribute));
  std::memcpy(&number, found.bytes.data(), sizeof number);
  return number;
}

inline std::vector<std::int64_t> numbers(const DnnDescriptor& of, int attribute) {
  const DnnValue& found = value(of, attribute);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(found.count));
  if (found.bytes.size() != numbers.size() * sizeof(std::int64_t))
    throw std::length_error("attribute " + std::to_string(attribute));
  std::memcpy(numbers.data(), found.bytes.data(), found.bytes.size());
  return numbers;
}

}  // namespace meshwright::cuda
