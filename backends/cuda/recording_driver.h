// A driver for tests, without a GPU: devices' memory is this process' own, and kernels run on the host. What is on
// streams runs when somebody asks whether a stream is done, in an order that is drawn, and which respects nothing but
// the order on each stream, events, and that a collective needs all of its ranks. A kernel sees of all memory only what
// its launch says that it reads; a write elsewhere is found. Everything is taken down, and `check_device` proves it
// free of races.
//
// Entry points can be made to fail at one of their calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver.h"
#include "mail.h"

namespace meshwright::cuda {

struct RecordingOptions {
  static constexpr Code kHangs = -1;
  int devices = 0;
  std::uint64_t seed = 0;  // of the order
  // Which call fails, counted from 1 over all devices, and with which code; kHangs: it never returns.
  struct Failure {
    EntryPoint entry = EntryPoint::get_device_count;
    std::int64_t call = 1;
    Code code = 2;
  };
  std::vector<Failure> failures = {};
  // For tests of the proof: the waits of this number, counted from 1 on each device, are left out; 0: none.
  std::int64_t omitted_wait = 0;
  // Over which communicators reach their ranks, each in a process of its own; null: all are in this one.
  Mail* mail = nullptr;
};

std::unique_ptr<Driver> make_recording_driver(const RecordingOptions& options);

}  // namespace meshwright::cuda
